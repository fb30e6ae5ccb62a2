"""The service of docs/guide/deploy.md answers requests on the loopback."""

import importlib.util
import json
import re
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

import structinv
from structinv import InvariantTextClassifier

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "deploy.md"
TEXTS = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"]
LABELS = ["spam", "spam", "ham", "ham"]


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Run the code of the page next to a saved model, and return the address."""
    monkeypatch.chdir(tmp_path)
    model = InvariantTextClassifier("drop", max_changes=1, C=10.0, random_state=0).fit(TEXTS, LABELS)
    structinv.save(model, "spam.model")
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    Path("service.py").write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("service", "service.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "service", module)
    spec.loader.exec_module(module)
    server = uvicorn.Server(uvicorn.Config(module.app, host="127.0.0.1", port=0, log_level="error"))
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


def answer_to(address, text):
    """Call the service as a client does."""
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(f"{address}/check", body, {"Content-Type": "application/json"})
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with without_proxy.open(request, timeout=60) as response:
        return json.load(response)


def test_the_service_returns_label_certificate_worst_edit_and_share(address):
    first = answer_to(address, "free free money money")
    assert first == {"label": "spam", "certified": True, "worst_edit": ["money"], "certified_share": 1.0}
    second = answer_to(address, "money")
    assert (second["label"], second["certified"], second["certified_share"]) == ("spam", False, 0.5)
    assert second["worst_edit"] == ["money"]
