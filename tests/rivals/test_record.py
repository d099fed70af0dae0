import json

import numpy as np
import pytest
from benchmarks.record import load_results, save_result


def test_a_result_comes_back_with_versions_and_machine(tmp_path):
    payload = {"seed": 3, "config": {"C": np.float64(0.5)}, "error": np.float32(0.25), "rows": np.arange(3)}
    save_result(tmp_path / "banana" / "lr-0.json", payload)
    (result,) = load_results(tmp_path)
    assert result["path"] == "banana/lr-0.json"
    assert result["config"] == {"C": 0.5}
    assert result["error"] == 0.25
    assert result["rows"] == [0, 1, 2]
    assert {"python", "numpy", "scikit-learn"} <= set(result["versions"])
    assert result["machine"]["cores"] >= 1


def test_a_result_without_seed_or_config_is_refused(tmp_path):
    with pytest.raises(ValueError, match="config, seed"):
        save_result(tmp_path / "x.json", {"error": 0.1})


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = save_result(tmp_path / "x.json", {"seed": 0, "config": {}, "error": 0.1})
    for bad in (float("nan"), object()):
        with pytest.raises((ValueError, TypeError)):
            save_result(path, {"seed": 0, "config": {}, "error": bad})
    assert json.loads(path.read_text())["error"] == 0.1
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]
