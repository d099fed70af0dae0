"""The report in a real browser: no console errors, no requests, working controls."""

import shutil

import numpy as np
import pytest

import fitted
from fitted import page_of, sampled

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


def written(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return written(tmp_path_factory, page_of(sampled))


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    return written(tmp_path_factory, fitted.hostile_page())


@pytest.fixture(scope="module")
def number_page(tmp_path_factory):
    return written(tmp_path_factory, fitted.number_page()[1])


def column(browser, table, j):
    rows = browser.find_elements(By.CSS_SELECTOR, f"{table} tbody tr")
    return [row.find_elements(By.TAG_NAME, "td")[j].text for row in rows if row.is_displayed()]


def test_opens_without_errors_or_requests(browser, page):
    asked = opened(browser, page)
    own = ("file:", "data:", "chrome:", "chrome-untrusted:")  # the browser draws its own first page and search field
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


def test_a_threshold_can_be_moved_for_either_class(browser, page):
    from sklearn.metrics import average_precision_score, precision_score, recall_score, roc_auc_score

    opened(browser, page)
    model, X, y = sampled()
    for positive in (0, 1):
        select = browser.find_element(By.ID, "positive")
        select.find_elements(By.TAG_NAME, "option")[positive].click()
        script = "const s = document.getElementById('cut'); s.value = 700; s.dispatchEvent(new Event('input'))"
        browser.execute_script(script)
        p = np.rint(1000 * model.predict_proba(X)[:, positive])
        hit, called = y == positive, p >= 700
        counts = [int(browser.find_element(By.ID, name).text) for name in ("tp", "fp", "fn", "tn")]
        want = [(hit & called), (~hit & called), (hit & ~called), (~hit & ~called)]
        assert counts == [int(one.sum()) for one in want]
        words = browser.find_element(By.ID, "cut-words").text
        assert f"{100 * precision_score(hit, called):.1f} % of these" in words
        assert f"finds {100 * recall_score(hit, called):.1f} %" in words
        assert f"Area {roc_auc_score(hit, p):.3f}" in browser.find_element(By.ID, "roc-area").text
        assert f"{average_precision_score(hit, p):.3f}" in browser.find_element(By.ID, "pr-area").text


def test_rows_can_be_walked_through(browser, page):
    opened(browser, page)
    model, X, y = sampled()
    first = browser.find_element(By.ID, "row-detail").text
    browser.find_element(By.ID, "row-next").click()
    assert browser.find_element(By.ID, "row-detail").text != first
    browser.find_element(By.ID, "row-filter").find_elements(By.TAG_NAME, "option")[1].click()
    options = browser.find_elements(By.CSS_SELECTOR, "#row-list option")
    wrong = set((np.flatnonzero(model.predict(X) != y) + 1).tolist())
    assert all(int(one.text.split()[1].rstrip(":")) in wrong for one in options)
    assert options
    assert "wrong." in browser.find_element(By.ID, "row-detail").text


def test_rows_with_numbers_can_be_walked_through(browser, number_page):
    opened(browser, number_page)
    first = browser.find_element(By.ID, "row-detail").text
    assert "with 90 % between" in first
    assert "size" in first
    browser.find_element(By.ID, "row-next").click()
    assert browser.find_element(By.ID, "row-detail").text != first
    browser.find_element(By.CSS_SELECTOR, "#row-filter option[value=wrong]").click()
    assert "outside" in browser.find_element(By.ID, "row-detail").text


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_nothing_runs_out_of_the_page(browser, page, hostile_page, number_page, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for one in (page, hostile_page, number_page):
            opened(browser, one)
            wide = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_hostile_names_are_shown_and_not_run(browser, hostile_page):
    asked = opened(browser, hostile_page)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert "<script>alert('x')</script>" in browser.find_element(By.TAG_NAME, "h1").text
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    assert "<script>" in browser.find_element(By.ID, "row-detail").text
    select = browser.find_element(By.ID, "class")
    select.find_elements(By.TAG_NAME, "option")[1].click()
    shown = [one for one in browser.find_elements(By.CSS_SELECTOR, "figure[data-figure]") if one.is_displayed()]
    assert len(shown) == 1
    assert browser.get_log("browser") == []
