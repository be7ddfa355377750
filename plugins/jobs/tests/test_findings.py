from __future__ import annotations

import sentbed_jobs.plugin


def findings_by_name():
    return {finding.what: finding for finding in sentbed_jobs.plugin.findings()}


def test_ray_is_found_by_its_version_or_named_with_its_extra(
    monkeypatch,
):
    monkeypatch.setattr(
        "sentbed_common.doctor_findings.version_of", {"ray": "2.60.0"}.get
    )
    assert findings_by_name()["ray"].detail == "2.60.0"
    monkeypatch.setattr("sentbed_common.doctor_findings.version_of", lambda _: None)
    missing = findings_by_name()["ray"]
    assert (missing.status, missing.remedy) == (
        "no",
        "`pip install 'sentbed-jobs[ray]'`",
    )
    assert findings_by_name()["local"].status == "yes"
