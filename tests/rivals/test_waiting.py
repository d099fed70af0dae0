"""The benchmark of waiting: small versions of its inputs run, and its tables are made from what it records."""

from benchmarks import record, speed_tables, waiting


def test_small_versions_run_and_are_shown(tmp_path):
    lines = []
    waiting.run(["wide", "time_limit", waiting.FILE], True, 0.05, lines.append)
    assert [line["case"] for line in lines] == ["wide", "time_limit", "pbdn fit", "pbdn predict"]
    assert set(lines[0]["results"]) == set(waiting.METHODS)
    for line in lines:
        record.append("speed", line, tmp_path)
    shown = speed_tables.waiting(tmp_path)
    assert "wide (60 x 200)" in shown
    assert "time_limit (300 x 14)" in shown
    assert speed_tables.waiting_file(tmp_path).count("pbdn") == 2
    assert waiting.rows_of("cover", quick=True)[0].shape == (300, 14)
