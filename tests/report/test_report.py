"""The report: offline, small, and no name becomes markup; the card and the notebook view from the same model."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import metrics

from fitted import (
    HOSTILE,
    blobs,
    fitted,
    hostile_page,
    lone_side,
    number_page,
    numbers,
    optimised,
    page_of,
    sampled,
    small,
    three_classes,
    without_pictures,
)

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from pbdn.errors import InvalidInputError, TableWarning
from pbdn.inspection.columns import percent_text
from pbdn.inspection.curves import band_words, effect_curves
from pbdn.inspection.effects import feature_effects
from pbdn.inspection.quality import Estimate, measure_numbers, wilson
from pbdn.inspection.rules import subtype_rules
from pbdn.report import collect, measure, render_card, render_html
from pbdn.report.numbers import _how_sure

pd = pytest.importorskip("pandas")


class Tags(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("build", [sampled, optimised, three_classes, lone_side])
def test_page_is_small_and_asks_for_nothing(build):
    page = page_of(build)
    assert len(page.encode()) < 500_000
    parsed = Tags(page)
    for name, value in parsed.attributes:
        if name in ("src", "href", "action", "xlink:href"):
            assert value.startswith(("data:", "#")), (name, value[:60])
        assert not name.startswith("on")
    assert "@import" not in page
    assert not re.search(r"https?://", page)
    assert "default-src 'none'" in page


def test_hostile_names_never_become_markup():
    model, X, y = three_classes()
    harmless = page_of(three_classes)
    page = hostile_page()
    assert "<script>alert" not in page
    assert "alert('x')</script>" not in page
    assert Tags(page).tags.count("script") == Tags(harmless).tags.count("script") == 2
    assert "{{7*7}}" in page or "{{7*7}}" in page.replace("&#39;", "'")  # shown, not evaluated
    assert "<script>" not in render_card(collect(model, X, y, target=HOSTILE, notes=[HOSTILE]))


def test_card_tables_keep_their_shape_with_hostile_names():
    model, X, y = three_classes()
    card = render_card(collect(model, X, y, target=HOSTILE, columns=[(HOSTILE, HOSTILE)], notes=[HOSTILE]))
    for block in re.findall(r"(?:^\|.*\n)+", card, flags=re.M):
        lines = block.strip().split("\n")
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(widths) == 1, lines


def test_sections_follow_the_data():
    model, X, y = sampled()
    assert "Calibration" in page_of(sampled)
    assert "R-hat" in page_of(sampled)
    with without_pictures():
        without = render_html(collect(model, X))
    assert "No labels were given" in without
    assert 'class="confusion"' not in without
    assert "an optimum (MAP)" in page_of(optimised)
    assert 'id="threshold"' in page_of(sampled)
    assert 'id="threshold"' not in without
    assert "training=(X_train, y_train)" in without


def test_subtypes_as_pictures():
    model, X, y = three_classes()
    shape = (1, X.shape[1])
    with without_pictures():
        page = render_html(collect(model, X, y, image_shape=shape))
    attributes = Tags(page).attributes
    sources = [value for name, value in attributes if name == "src"]
    assert len(sources) == sum(model.n_experts_[0])
    assert all(value.startswith("data:image/png;base64,") for value in sources)
    for label in model.classes_:
        assert ("alt", f"{label}, expert 1") in attributes
        assert ("alt", f"not {label}, expert 1") in attributes
    assert "Pictures of the subtypes" not in page_of(three_classes)
    with pytest.raises(InvalidInputError, match="pixels"):
        collect(model, X, y, image_shape=(7, 11))


def test_first_screen_answers_four_questions():
    model, X, y = sampled()
    data = collect(model, X, y)
    good, sure, columns, groups = data.answers
    right = np.mean(model.predict(X) == y)
    assert good["short"] == f"{100 * right:.1f} % right"
    assert "95 % interval" in good["text"]
    assert "on average" in sure["text"]
    assert columns["short"] in ("x0", "x1")
    assert groups["short"] == f"{len(data.cards)} groups"
    silent = collect(model, X).answers
    assert silent[0]["short"] == "not measured"


@pytest.mark.parametrize(
    ("shift", "word"), [(0.0, "as sure as it is right"), (0.25, "too sure"), (-0.25, "too careful")]
)
def test_how_sure_says_what_the_numbers_say(rng, shift, word):
    from pbdn.report.words import answers

    p = rng.uniform(0.6, 0.7, 4000)
    y = (rng.random(4000) < p - shift).astype(int)
    found = answers({"classes": [0, 1]}, [], [], None, None, y, np.column_stack([1 - p, p]))
    assert found[1]["short"] == word
    few = answers({"classes": [0, 1]}, [], [], None, None, y[:5], np.column_stack([1 - p, p])[:5])
    assert few[1]["short"] == "too few rows to tell"


def test_a_model_no_better_than_guessing_is_called_so(rng):
    from pbdn.report.words import answers

    y = rng.integers(0, 2, 300)
    p = rng.uniform(0.3, 0.7, 300)
    probability = np.column_stack([1 - p, p])
    quality = measure(y, probability, np.array([0, 1]))
    found = answers({"classes": [0, 1]}, [], [], quality, None, y, probability)[0]
    assert found["mood"] == "poor" or "may be chance" in found["text"]


def test_every_row_belongs_to_one_group():
    for build in (sampled, three_classes, lone_side):
        model, X, y = build()
        cards = collect(model, X, y).cards
        assert sum(card["rows"] for card in cards) == len(X)
        assert all(card["examples"] and card["phrases"] for card in cards)
        for card in cards:
            for one in card["examples"]:
                assert one["label"] == y[one["row"] - 1]


def test_rows_of_the_explorer_agree_with_predictions():
    model, X, y = three_classes()
    found = collect(model, X, y).explored
    p = model.predict_proba(X)
    classes = model.classes_.tolist()
    wrong = np.flatnonzero(model.predict(X) != y)
    shown = [row["n"] - 1 for row in found["rows"]]
    assert set(wrong[:5]) & set(shown) or not wrong.size
    for row in found["rows"]:
        i = row["n"] - 1
        assert row["p"] == np.rint(1000 * p[i]).astype(int).tolist()
        assert classes[row["y"]] == y[i]
        best = int(np.argmax(p[i]))
        assert sum(row["a"]) + row["r"] + found["base"][best] == pytest.approx(1000 * p[i, best], abs=4)


def test_the_page_says_what_was_done(rng):
    X, y = blobs(rng)
    one = fitted(small("folds", max_depth=1), X, y)
    assert any(step["polished"] for step in one.criterion_path_)
    page = one.report(X, y)
    assert "tuned together" not in page
    assert "rows that were kept back (their deviance). Lower is better." in page
    assert "plus a charge" not in page
    assert "exact: all combinations of columns were tried" in page
    page = page_of(lone_side)
    assert "training rows (their deviance), plus a charge for its size. Lower is better." in page
    six = rng.normal(size=(60, 6))
    page = fitted(small("map", max_depth=1), six, (six[:, 0] > 0).astype(int)).report(six)
    assert "(sampled, with a standard error of" in page


def test_the_same_share_is_written_the_same():
    assert percent_text(3 / 400, 1) == percent_text(1.0 - 397 / 400, 1) == "0.8 %"


def test_rivals_are_compared_on_the_same_rows(rng):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pbdn.report.words import comparison_words

    model, X, y = optimised()
    data = collect(model, X[:80], y[:80], training=(X[80:], y[80:]))
    names = [line["name"] for line in data.rivals]
    assert names == ["this network", "logistic regression", "gradient boosting"]
    own, logistic, _ = data.rivals
    assert own["error"] == data.quality.error
    rival = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[80:], y[80:])
    assert logistic["error"].value == pytest.approx(np.mean(rival.predict(X[:80]) != y[:80]))
    with without_pictures():
        page = render_html(data)
    assert "fitted on the same training rows" in page
    assert comparison_words(data.rivals) in page.replace("&#39;", "'")


def test_words_of_the_comparison_agree_with_the_intervals():
    from pbdn.report import Estimate
    from pbdn.report.words import comparison_words

    def line(name, low, high):
        return {"name": name, "own": name == "this network", "log_loss": Estimate((low + high) / 2, low, high)}

    mine = line("this network", 0.4, 0.5)
    assert "better than those of both" in comparison_words([mine, line("a", 0.6, 0.7), line("b", 0.8, 0.9)])
    assert "The probabilities of a are better" in comparison_words([mine, line("a", 0.2, 0.3), line("b", 0.8, 0.9)])
    assert "a little worse" in comparison_words([mine, line("a", 0.35, 0.45), line("b", 0.8, 0.9)])


def test_columns_that_leak_count_rows_or_stay_the_same_are_called_out(rng):
    from fitted import QUICK_MAP, quickly
    from pbdn import PBDNClassifier

    y = rng.integers(0, 2, 120)
    X = np.column_stack([y + 0.01 * rng.standard_normal(120), rng.permutation(120), rng.standard_normal(120)])
    model = quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=1, random_state=0), X, y)
    rows = np.column_stack([X[:, :2], np.full(120, 7.0)])
    data = collect(model, rows, y, columns=[("x0", "number", ["odd cells"]), ("code", "left out: a key")])
    found = {one.name: " ".join(one.alerts) for one in data.profile}
    assert "odd cells" in found["x0"]
    assert "almost perfectly" in found["x0"]
    assert "x0 alone tells the class" in data.answers[0]["text"]
    assert "Counts the rows" in found["x1"]
    assert "The same in all rows" in found["x2"]
    assert next(one for one in data.profile if one.name == "code").kind == "left out"
    with without_pictures():
        page, card = render_html(data), render_card(data)
    assert "things to check" in page
    assert "Check these columns" in card


def test_columns_that_say_the_same_are_called_out_once(rng):
    from pbdn.inspection.columns import MISSING, ColumnGroup
    from pbdn.report.profile import _alike

    price = np.exp(rng.standard_normal(200))
    gone = (rng.random(200) < 0.3).astype(float)
    rows = np.column_stack(
        [price, np.where(gone == 1.0, 99.0, -2.0 * price), gone, rng.standard_normal(200), np.ones(200)]
    )
    groups = [
        ColumnGroup("price", "number", (0,)),
        ColumnGroup("debit", "number", (1, 2), ("value", MISSING)),
        ColumnGroup("noise", "number", (3,)),
        ColumnGroup("same", "number", (4,)),
    ]
    found = _alike(groups, rows)
    assert list(found) == ["debit"]
    assert "the same as price (rank correlation -1.00)" in found["debit"][0]


def test_the_target_stands_in_the_profile_and_a_rare_class_is_called_out():
    from pbdn.report.profile import target_profile

    model, X, y = sampled()
    first = collect(model, X, y, target="outcome").profile[0]
    assert (first.name, first.kind, first.alerts) == ("outcome", "target", [])
    assert collect(model, X).profile[0].kind != "target"
    rare = target_profile("ill", np.array(["no"] * 95 + ["yes"] * 5), has_classes=True)
    assert "95 % are no" in rare.alerts[0]
    number = target_profile("price", np.arange(11.0), has_classes=False)
    assert number.summary == "0 to 10, median 5"


def test_convergence_is_judged_by_the_limit_that_is_shown():
    model, X, y = sampled()
    data = collect(model, X, y)
    for one in data.convergence:
        if one["ok"]:
            assert one["r_hat"] <= one["r_hat_wanted"]
            assert min(one["ess_bulk"], one["ess_tail"]) >= one["ess_wanted"]
    page = page_of(sampled)
    assert ">passes<" not in page
    failing = [one for one in data.convergence if not one["ok"]]
    assert page.count("<td>not yet</td>") == len(failing)
    assert f"{len(data.convergence) - len(failing)} of {len(data.convergence)} quantities" in page or not failing


def test_the_same_rows_are_not_measured_twice():
    model, X, y = sampled()
    once = collect(model, X, y)
    data = collect(model, X, y, validation=once.quality.to_dict())
    with without_pictures():
        assert render_html(data).count("<th>measure</th>") == 1
    assert "Fitted rows" not in data.answers[1]["text"]
    fewer = collect(model, X[:50], y[:50], validation=once.quality.to_dict())
    assert "Fitted rows may be among these" in fewer.answers[1]["text"]


def test_a_layer_that_was_not_trained_on_its_own_has_no_trace():
    from copy import copy

    from pbdn.plots import TraceDisplay

    model, X, y = optimised()
    model = copy(model)
    model.trace_ = [None] * model.depth_
    with pytest.raises(InvalidInputError, match="not trained on its own"):
        TraceDisplay.from_estimator(model)
    assert collect(model, X, y).traces is None


def test_report_method_writes_the_file(tmp_path):
    model, X, y = optimised()
    with without_pictures():
        page = model.report(X, y, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == page


def test_labels_may_be_a_column_and_labels_that_do_not_fit_are_refused():
    model, X, y = optimised()
    plain = collect(model, X, y)
    for column in (y[:, None], pd.DataFrame({"y": y}), y.astype(str)):
        assert collect(model, X, column).quality == plain.quality
    assert measure(y[:, None], model.predict_proba(X), model.classes_) == plain.quality
    for wrong, words in (
        (y[:5], "rows but y has 5"),
        (np.where(np.arange(len(y)) == 3, None, y), "1 missing label.*position 3"),
        (np.where(y == 1, "yes", "no"), r"labels such as .* fitted on the classes \[0, 1\]"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            model.report(X, wrong)


def test_classes_that_the_model_does_not_know_are_told_and_left_out():
    model, X, y = optimised()
    some = np.arange(len(y)) < 3
    with pytest.warns(TableWarning, match="3 rows have a 'y' that no training row had, such as '7'; not measured"):
        found = collect(model, X, np.where(some, 7, y))
    assert found.quality == collect(model, X[~some], y[~some]).quality
    assert found.facts["rows"] == len(y) - 3


def test_numbers_may_be_a_column_and_bounds_are_refused():
    model, X, y = numbers("number")
    assert collect(model, X, y[:, None]).quality == collect(model, X, y).quality
    with pytest.raises(InvalidInputError, match="has the bounds .* in row 0; a report compares"):
        model.report(X, np.column_stack([y, y + 1.0]))
    with pytest.raises(InvalidInputError, match="1 missing"):
        model.report(X, np.where(np.arange(len(y)) == 2, np.nan, y))


def test_times_may_be_a_data_frame():
    model, X, y = numbers("time")
    assert collect(model, X, pd.DataFrame(y)).quality == collect(model, X, y).quality


def test_confusion_and_error_agree_with_predictions():
    model, X, y = sampled()
    quality = collect(model, X, y).quality
    wrong = model.predict(X) != y
    assert quality.error.value == pytest.approx(wrong.mean())
    confusion = np.array(quality.confusion)
    assert confusion.sum() == len(y)
    assert np.trace(confusion) == (~wrong).sum()


def test_features_that_do_not_matter_are_last(rng):
    from fitted import QUICK_MAP, quickly
    from pbdn import PBDNClassifier

    X = rng.standard_normal((300, 4))
    y = (X[:, 2] > 0).astype(int)
    model = quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=1, random_state=0), X, y)
    effects = feature_effects(model, X)
    assert effects[0]["feature"] == "x2"
    assert effects[0]["flips"] > 5 * max(one["flips"] for one in effects[1:])
    rules = subtype_rules(model, X)
    for rule in rules:
        side = "above" if rule["side"] == 1 else "below"
        assert rule["share"] < 0.2 or f"x2 far {side} average" in rule["rule"] or f"x2 {side} average" in rule["rule"]


def test_notebook_view_before_and_after_the_fit():
    from pbdn import PBDNClassifier

    assert "layer(s)" not in PBDNClassifier()._repr_html_()
    model, _, _ = three_classes()
    view = model._repr_html_()
    assert "1 layer(s)" in view
    assert "<script>alert" not in view


def test_measures_against_scikit_learn(rng):
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    y = rng.integers(0, 2, 400)
    p = np.clip(0.3 * y + 0.7 * rng.random(400), 0.01, 0.99).round(2)
    q = measure(y, np.column_stack([1 - p, p]), np.array([0, 1]))
    assert q.log_loss.value == pytest.approx(log_loss(y, p))
    assert q.brier.value == pytest.approx(brier_score_loss(y, p))
    assert q.area.value == pytest.approx(roc_auc_score(y, p))
    for one in (q.error, q.log_loss, q.brier, q.area):
        assert one.low < one.value < one.high


def test_intervals_of_many_rows_shrink_as_they_should(rng):
    def width(n):
        y = rng.integers(0, 2, n)
        p = np.clip(0.5 + 0.3 * (2 * y - 1) + 0.4 * (rng.random(n) - 0.5), 0.02, 0.98)
        one = measure(y, np.column_stack([1 - p, p]), np.array([0, 1])).log_loss
        return one.high - one.low

    assert 5.0 < width(800) / width(80_000) < 20.0  # 10 in expectation; the larger set is subsampled


def test_more_classes_and_unknown_labels_are_measured(rng):
    from sklearn.metrics import brier_score_loss, log_loss

    p = rng.dirichlet(np.ones(3), 200)
    y = np.array(["a", "b", "c"])[np.argmax(p, axis=1)]
    q = measure(y, p, np.array(["a", "b", "c"]))
    assert q.log_loss.value == pytest.approx(log_loss(y, p))
    assert q.brier.value == pytest.approx(brier_score_loss(y, p))
    assert q.area is None
    strange = np.where(np.arange(200) < 50, "d", y)
    worse = measure(strange, p, np.array(["a", "b", "c"]))
    assert worse.error.value == pytest.approx(0.25)
    assert worse.log_loss.low < worse.log_loss.value < worse.log_loss.high
    assert np.sum(worse.confusion) == 150


def test_one_row_can_be_measured():
    q = measure(np.array([1]), np.array([[0.2, 0.8]]), np.array([0, 1]))
    assert (q.n_rows, q.error.value, q.area) == (1, 0.0, None)
    assert q.brier.value == pytest.approx(0.04)
    one_positive = measure(np.array([1, 0, 0]), np.array([[0.2, 0.8], [0.6, 0.4], [0.1, 0.9]]), np.array([0, 1]))
    assert one_positive.area.value == 0.5


def test_wilson_at_the_edges():
    assert wilson(0, 20).low == 0.0
    assert wilson(20, 20).high == 1.0
    assert wilson(0, 20).high == pytest.approx(0.1611, abs=1e-4)


def test_the_same_model_gives_the_same_bytes():
    import matplotlib

    with matplotlib.rc_context({"font.size": 30.0, "lines.linewidth": 9.0, "svg.fonttype": "path"}):
        assert page_of.__wrapped__(sampled) == page_of(sampled)


def test_pictures_have_titles_descriptions_and_unique_identifiers():
    page = page_of(sampled)
    parsed = Tags(page)
    identifiers = [value for name, value in parsed.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    labels = [value for name, value in parsed.attributes if name == "aria-label"]
    roles = [value for name, value in parsed.attributes if name == "role"]
    traced = any(sampled()[0].trace_)
    pictures = 6 + traced + 2  # confidence, importance, calibration, map, diagram, criterion, traces; two curves
    assert roles.count("img") == parsed.tags.count("svg") == pictures
    labels = [label for label in labels if len(label) > 30]
    assert len(labels) >= pictures
    titles = re.findall(r"<title>([^<]*)</title>", page)
    for text in (
        r"layer 1: \d",
        r"predicted 0\.\d+, observed",
        *([r"log likelihood, side 0"] if traced else []),
        r"a (hyperplane|curve) for 1",
    ):
        assert any(re.match(f".*{text}", title) for title in titles), text
    assert any(title.startswith("0: 1, weight") for title in titles)


def test_pictures_follow_the_colours_of_the_page():
    page = page_of(sampled)
    body = page[page.index("</style>") :]
    assert "fill: var(--ink)" in body
    assert "stroke: var(--raises)" in body
    assert "#1e293b" not in body
    assert "prefers-color-scheme: dark" in page


def test_names_that_xml_cannot_hold_are_drawn():
    from pbdn.plots import CriterionPathDisplay
    from pbdn.plots.base import shown
    from pbdn.plots.svg import page_svg

    assert shown("a\x00b\x1b c\n$d$") == r"ab c \$d\$"
    step = {"depth": 1, "criterion": 2.0, "kept": True}
    picture = page_svg(CriterionPathDisplay([step]), "p", '<script> & "quotes"')
    assert "<script>" not in picture
    assert 'aria-label="&lt;script&gt; &amp; &quot;quotes&quot;"' in picture


@pytest.mark.parametrize("kind", ["number", "count"])
def test_a_page_about_numbers_says_how_good_how_sure_and_what(kind):
    model, X, y = numbers(kind)
    data, page = number_page(kind)
    good, sure, columns, groups = data.answers
    quality = data.quality
    assert quality.r2.value == pytest.approx(model.score(X, y))
    assert f"R² {quality.r2.value:.2f}, off by" in good["short"]
    assert good["mood"] == "good"
    assert f"{100 * quality.covered['0.9']:.0f} %" in sure["text"]
    assert columns["short"] == "size"
    assert sum(card["rows"] for card in data.cards) == len(y)
    assert groups["short"].split()[0] == str(len(data.cards))
    assert data.rivals[0]["name"] == "this network"
    text = " ".join(Tags(page).text)
    for words in (
        "Predicted and observed",
        "Whole distributions",
        "mean absolute error",
        "moves medians by",
        "median moves",
    ):
        assert words in text
    for words in ("Threshold", "labels flip", "Confusion", "points of a hundred"):
        assert words not in text
    one = data.explored["rows"][0]
    assert sum(one["a"]) + one["r"] + float(data.explored["base"]) == pytest.approx(float(one["p"]), rel=0.01)
    card = render_card(data)
    assert "mean absolute error" in card
    assert "labels flip" not in card


def test_a_page_about_numbers_without_values_and_one_about_grades():
    model, X, _ = numbers()
    with without_pictures():
        text = " ".join(Tags(model.report(X)).text)
    assert "No values were given" in text
    model, X, y = numbers("grade")
    text = " ".join(Tags(model.report(X, y)).text)
    assert "3 grades" in text
    assert "Confusion" in text


@pytest.mark.parametrize("kind", ["time", pytest.param("causes", marks=pytest.mark.long)])
def test_a_page_about_times_says_who_comes_first_and_how_sure(kind):
    model, X, y = numbers(kind)
    data = collect(model, X, y, target="days")
    good, sure, columns, _ = data.answers
    assert good["short"] == f"concordance {model.score(X, y):.2f}"
    assert good["mood"] == "good"
    assert "without an event after" in sure["text"]
    assert columns["short"] == ("size" if kind == "time" else data.effects[0]["feature"])
    event = y[y.dtype.names[0]] > 0
    assert data.quality.n_events == event.sum()
    page = render_html(data)
    text = " ".join(Tags(page).text)
    for words in ("Survival", "Calibration of survival", "Kaplan-Meier", "concordance", "no event after"):
        assert words in text
    for words in ("Threshold", "root mean square", "Whole distributions", "labels flip"):
        assert words not in text
    censored = [one["y"] for one in data.explored["rows"] if one["y"].startswith("above")]
    assert bool(censored) == bool((~event[[one["n"] - 1 for one in data.explored["rows"]]]).any())
    if kind == "causes":
        assert "Aalen-Johansen" in text
        assert {rule["model"] for rule in data.rules} == {"cause 1", "cause 2"}
        keys = set(re.findall(r'data-key="(u[^"]+)"', page))
        assert {card["key"] for card in data.cards} <= keys
        assert any(key.startswith("ucause 2") for key in keys)
    card = render_card(data)
    assert "concordance" in card
    with without_pictures():
        assert "No times were given" in " ".join(Tags(model.report(X)).text)


def test_a_page_about_amounts_shows_both_networks():
    model, X, y = numbers("amount")
    data = collect(model, X, y, target="claim", training=(X, y))
    assert data.quality.r2.value == pytest.approx(model.score(X, y))
    assert {card["side"].split(":")[0] for card in data.cards} == {"zero or more", "amount"}
    zero = next(card for card in data.cards if card["side"] == "zero or more: above 0")
    assert 0.5 < zero["agree"] <= 1.0
    text = " ".join(Tags(render_html(data)).text)
    for words in ("an amount", "Predicted and observed", "Whole distributions", "mean moves", "gradient boosting"):
        assert words in text
    assert "2 networks: zero or more and amount" in text
    assert "an amount" in model._repr_html_()  # of a notebook
    assert "zero or more: 1" in model._repr_html_()


# How sure a curve is: a band from networks and draws that are there already.

KINDS = ["number", "count", "grade", "time", "causes", "amount"]


@pytest.mark.parametrize("build", [sampled, optimised, three_classes, lone_side, *KINDS])
def test_the_band_of_a_curve_holds_the_curve(build):
    model, X, _ = numbers(build) if isinstance(build, str) else build()
    curve = effect_curves(model, X, [0], n_rows=20, n_points=6)[0]
    low, high = curve.band
    assert (low <= curve.probability).all()
    assert (curve.probability <= high).all()
    assert (high - low).max() > 0.0
    by_draws = build in (sampled, lone_side)
    assert f"{len(curve.lone)} {'posterior draws' if by_draws else 'networks'}" in band_words(curve)
    if by_draws:
        assert 30 <= len(curve.lone) <= 50 or len(curve.lone) == len(model.network_.top.draws)
        assert (low >= np.minimum(curve.lone.min(axis=0), curve.probability)).all()
    else:
        np.testing.assert_array_equal(low, np.minimum(curve.lone.min(axis=0), curve.probability))
        np.testing.assert_array_equal(high, np.maximum(curve.lone.max(axis=0), curve.probability))


def test_the_curves_of_a_band_are_those_of_its_networks():
    model, X, _ = optimised()
    curve = effect_curves(model, X, [0], n_rows=len(X), n_points=3)[0]
    changed = X.copy()
    changed[:, 0] = curve.at[1]
    np.testing.assert_allclose(curve.lone[:, 1], model.network_.predict_folds(changed).mean(axis=1))


def test_the_page_draws_the_band_and_says_what_it_is():
    page = page_of(optimised)
    text = " ".join(" ".join(Tags(page).text).split())
    assert "enclose the curves of 5 networks" in text
    picture = page[page.index('id="curve0"') :]
    assert "stroke-dasharray" in picture[: picture.index("</svg>")]
    assert "how sure: at the widest" in picture[: picture.index("</svg>")]


def test_one_network_without_draws_has_no_band(rng):
    X, y = blobs(rng)
    data = collect(fitted(small("map"), X, y), X)
    assert data.curves
    assert all(display.curve.band is None for display in data.curves)
    assert "band_low" not in data.curves[0].table()
    page = render_html(data)
    assert "Dashed lines" not in page
    assert "how sure: at the widest" not in page


def test_intervals_that_are_too_narrow_or_too_wide_are_called_so():
    def said(share, n_rows=1000):
        covered = dict.fromkeys(("0.5", "0.8", "0.9", "0.95"), share)
        return _how_sure(None, {"n_rows": n_rows, "mae": {}, "covered": covered})["short"]

    assert [said(share) for share in (0.7, 0.9, 0.99)] == ["too sure", "as sure as it is right", "too careful"]
    assert said(0.9, 5) == "too few rows to tell"


def test_measures_of_numbers_against_scikit_learn(rng):
    model, X, y = numbers()
    weights = rng.integers(0, 3, size=len(y)).astype(float)
    found = measure_numbers(model, X, y, weights)
    mean = model.predict(X)
    assert found.r2.value == pytest.approx(metrics.r2_score(y, mean, sample_weight=weights))
    assert found.mae.value == pytest.approx(metrics.mean_absolute_error(y, mean, sample_weight=weights))
    assert found.rmse.value**2 == pytest.approx(metrics.mean_squared_error(y, mean, sample_weight=weights))
    low, high = model.predict_interval(X, 0.8).T
    assert found.covered["0.8"] == pytest.approx(np.average((low <= y) & (y <= high), weights=weights))
    assert found.r2.low < found.r2.value < found.r2.high


def test_an_expert_moves_medians_to_the_side_that_it_speaks_for():
    model, X, _ = numbers()
    rules = [rule for rule in subtype_rules(model, np.asarray(X)) if rule["moves"] is not None]
    assert rules
    for rule in rules:
        assert rule["moves"] < 0.0 if rule["number"] == 0 else rule["moves"] > 0.0


def test_no_variance_to_explain_is_no_endless_number():
    model, X, _ = numbers()
    for n in (1, 3):
        found = measure_numbers(model, X[:n], np.ones(n), None)
        assert found.r2 == Estimate(0.0, 0.0, 0.0)


def test_a_table_of_one_class_says_that_the_others_are_not_there():
    from pbdn.report.profile import target_profile

    (alert,) = target_profile("y", np.array(["no"] * 30), True).alerts
    assert "All are no" in alert
    (alert,) = target_profile("y", np.array(["no"] * 99 + ["yes"]), True).alerts
    assert "99 % are no" in alert
