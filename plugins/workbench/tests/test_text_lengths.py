from __future__ import annotations

from sentbed_workbench import text_lengths
from sentbed_workbench.evaluate import request_of
from sentbed_workbench.text_lengths import evaluation_texts


def test_a_directory_that_is_called_like_a_setting_is_no_data(tmp_path, monkeypatch):
    file = tmp_path / "pairs.tsv"
    file.write_text(
        "sentence1\tsentence2\tscore\nA cat.\tA dog.\t1.0\nOne.\tTwo.\t2.0\n"
    )
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "large").write_text("x" * 1000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(text_lengths, "MAX_BYTES", 500)
    evaluator = request_of("sts", [f"path={file}", "split=dev"]).evaluate
    texts = evaluation_texts(evaluator)
    assert texts.problem == ""
    assert texts.lists
