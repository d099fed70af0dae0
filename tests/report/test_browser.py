"""The report in a real browser: no console errors, no requests, working controls."""

import shutil

import pytest

from fitted import HOSTILE, sampled, three_classes

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install 'pbdn[test]'")
pytest.importorskip("jinja2")
By = pytest.importorskip("selenium.webdriver.common.by").By

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1100,1400",
)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are not installed (Debian: chromium, chromium-driver)",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def opened(browser, path):
    """Open a page and return the addresses it asked for; the console must be silent."""
    import json

    browser.get_log("performance")
    browser.get(path.as_uri())
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    model, X, y = sampled()
    path = tmp_path_factory.mktemp("page") / "report.html"
    model.report(X, y, path, source="rows", target="label", columns=[("x0", "number")])
    return path


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    model, X, y = three_classes()
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    model.report(X, y, path, source=HOSTILE, target=HOSTILE, columns=[(HOSTILE, HOSTILE)], notes=[HOSTILE])
    return path


def column(browser, table, j):
    rows = browser.find_elements(By.CSS_SELECTOR, f"{table} tbody tr")
    return [row.find_elements(By.TAG_NAME, "td")[j].text for row in rows if row.is_displayed()]


def test_opens_without_errors_or_requests(browser, page):
    asked = opened(browser, page)
    own = ("file:", "data:", "chrome:")  # the browser draws its own search field from chrome: resources
    assert [url for url in asked if not url.startswith(own)] == []
    assert browser.find_element(By.TAG_NAME, "h1").text == "What the network learned about label"


def test_tables_sort_both_ways(browser, page):
    opened(browser, page)
    head = browser.find_elements(By.CSS_SELECTOR, "#rules thead th")[3]
    head.click()
    weights = [float(text) for text in column(browser, "#rules", 3)]
    assert weights == sorted(weights)
    assert len(set(weights)) > 1
    head.click()
    assert [float(text) for text in column(browser, "#rules", 3)] == sorted(weights, reverse=True)


def test_a_layer_and_a_feature_can_be_chosen(browser, page):
    opened(browser, page)
    select = browser.find_element(By.ID, "layer")
    select.find_elements(By.TAG_NAME, "option")[1].click()
    assert set(column(browser, "#rules", 0)) == {"1"}
    browser.find_element(By.ID, "find").send_keys("x1")
    assert column(browser, "#effects", 0) == ["x1"]


def test_selecting_a_subtype_lights_up_its_expert(browser, page):
    opened(browser, page)
    row = browser.find_element(By.CSS_SELECTOR, "#rules tbody tr")
    key = row.get_attribute("data-key")
    row.click()
    lit = browser.find_elements(By.CSS_SELECTOR, "#diagram.focus .node.on")
    assert key in [node.get_attribute("data-key") for node in lit]
    edges = browser.find_elements(By.CSS_SELECTOR, "#diagram .edge.on")
    assert edges
    assert all(key in (edge.get_attribute("data-from"), edge.get_attribute("data-to")) for edge in edges)
    row.click()
    assert browser.find_elements(By.CSS_SELECTOR, "#diagram.focus") == []


def test_the_map_tells_the_probability_under_the_pointer(browser, page):
    opened(browser, page)
    image = browser.find_element(By.CSS_SELECTOR, "svg.map image")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", image)
    webdriver.ActionChains(browser).move_to_element_with_offset(image, 31, 17).perform()
    text = browser.find_element(By.ID, "readout").text
    assert text.startswith("x0 = ")
    assert text.endswith(" %")


def test_hostile_names_are_shown_and_not_run(browser, hostile_page):
    asked = opened(browser, hostile_page)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert "<script>alert('x')</script>" in browser.find_element(By.TAG_NAME, "h1").text
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    select = browser.find_element(By.ID, "class")
    select.find_elements(By.TAG_NAME, "option")[1].click()
    shown = [figure for figure in browser.find_elements(By.TAG_NAME, "figure") if figure.is_displayed()]
    assert len(shown) == 1
    assert browser.get_log("browser") == []
