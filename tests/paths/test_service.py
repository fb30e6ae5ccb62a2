"""The services of docs/guide/deploy.md answer requests on the loopback."""

import importlib.util
import json
import logging
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline

import structinv
from structinv import InvariantLinearSVC, InvariantLinearSVR, InvariantTextClassifier
from structinv.oracles import Box, FDrop

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "deploy.md"
TEXTS = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"]
LABELS = ["spam", "spam", "ham", "ham"]


def service(number, monkeypatch):
    """Return the module with the code of a service of the page."""
    found = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(found) == 3
    Path("service.py").write_text(found[number], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("service", "service.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "service", module)
    spec.loader.exec_module(module)
    return module


@contextmanager
def served(app):
    """Run an application and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="info"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            assert time.monotonic() < deadline, "the service does not start in time"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Run the first service of the page next to a saved model, and return its address."""
    monkeypatch.chdir(tmp_path)
    model = InvariantTextClassifier("drop", max_changes=1, C=10.0, random_state=0).fit(TEXTS, LABELS)
    structinv.save(model, "spam.model")
    with served(service(0, monkeypatch).app) as address:
        yield address


@pytest.fixture
def address_with_threshold(tmp_path, monkeypatch):
    """Run the second service of the page, and return its address."""
    monkeypatch.chdir(tmp_path)
    words = make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1), C=10.0, random_state=0))
    model = FixedThresholdClassifier(
        words, threshold=0.2, pos_label="spam", response_method="decision_function"
    ).fit(TEXTS, LABELS)
    assert words.fit(TEXTS, LABELS).decision_function(["money"])[0] == pytest.approx(0.5, abs=1e-3)
    structinv.save(model, "words.model")
    with served(service(1, monkeypatch).app) as address:
        yield address


@pytest.fixture
def address_of_numbers(tmp_path, monkeypatch):
    """Run the third service of the page, and return its address."""
    monkeypatch.chdir(tmp_path)
    X = np.arange(12.0).reshape(6, 2)
    structinv.save(InvariantLinearSVR(Box(0.5), C=10.0, random_state=0).fit(X, X[:, 0]), "rows.model")
    with served(service(2, monkeypatch).app) as address:
        yield address


def answer_to(address, text):
    """Call the service as a client does."""
    return posted(f"{address}/check", {"text": text})


def posted(address, content):
    body = json.dumps(content).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with without_proxy.open(request, timeout=60) as response:
        return json.load(response)


def test_the_service_returns_label_certificate_and_share(address):
    first = answer_to(address, "free free money money")
    assert first == {"label": "spam", "certified": True, "certified_share": 1.0}
    assert answer_to(address, "money") == {"label": "spam", "certified": False, "certified_share": 0.5}


def test_the_worst_edit_is_logged_and_not_returned(address, caplog):
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    try:
        assert "worst_edit" not in answer_to(address, "money")
    finally:
        log.removeHandler(caplog.handler)
    assert "worst edit: ['money']" in caplog.messages


def test_a_text_without_known_tokens_is_unknown_and_not_counted(address):
    for text in ("", "zzz qqq"):
        answer = answer_to(address, text)
        assert answer == {"label": "unknown", "certified": False, "certified_share": None}
    assert answer_to(address, "money")["certified_share"] == 0.0
    assert answer_to(address, "zzz")["certified_share"] == 0.0


@pytest.mark.parametrize("name", ["address", "address_with_threshold"])
def test_long_texts_are_refused(name, request):
    address = request.getfixturevalue(name)
    assert answer_to(address, "money " * 3000)["label"] == "spam"
    with pytest.raises(urllib.error.HTTPError, match="422"):
        answer_to(address, "money " * 4000)


def test_certificates_of_the_second_service_count_from_the_threshold(address_with_threshold):
    address = address_with_threshold
    assert answer_to(address, "free free money money") == {"label": "spam", "certified": False}
    assert answer_to(address, "free money now") == {"label": "spam", "certified": True}
    # Without "lunch" the score is about 0, which is below the threshold only.
    assert answer_to(address, "lunch") == {"label": "ham", "certified": True}
    assert answer_to(address, "zzz") == {"label": "unknown", "certified": False}


def test_the_third_service_returns_predictions_with_bounds(address_of_numbers):
    answer = posted(f"{address_of_numbers}/predict", {"values": [4.0, 5.0]})
    model = structinv.load("rows.model")
    bounds = model.certify(np.array([[4.0, 5.0]]))
    assert answer == {
        "prediction": model.predict(np.array([[4.0, 5.0]]))[0],
        "lowest": bounds.lowest[0],
        "highest": bounds.highest[0],
    }
    assert answer["lowest"] < answer["prediction"] < answer["highest"]


def test_the_third_service_refuses_other_rows(address_of_numbers):
    for values in ([], [1.0], [1.0, 2.0, 3.0], [1.0, float("nan")], ["a", 1.0], None):
        with pytest.raises(urllib.error.HTTPError, match="422"):
            posted(f"{address_of_numbers}/predict", {"values": values})
