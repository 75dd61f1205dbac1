"""From a raw file to a service: the script of the page "A model from end to end".

pip install fastapi uvicorn
python examples/tutorial/tutorial.py
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from importlib import resources
from pathlib import Path

import numpy as np
from features import features
from sklearn.metrics import confusion_matrix

import maxmargin
from maxmargin import GaussianPrior, LinearSVC, LinearSVCCV

# begin: read
raw = (resources.files("sklearn.datasets.data") / "breast_cancer.csv").read_text().splitlines()
print(raw[0])  # 569,30,malignant,benign: the file begins with sizes and the names of the classes
table = np.array([[float(cell) for cell in line.split(",")] for line in raw[1:]])
rows, labels = table[:, :-1], np.array(["malignant", "benign"])[table[:, -1].astype(int)]
# end: read

# begin: features
X = features(rows)
january, february, later = slice(0, 250), slice(250, 400), slice(400, None)
print(X[january].shape)  # (250, 40)
# end: features

# begin: search
search = LinearSVCCV(
    Cs=[1e-3, 1e-2, 1e-1, 1, 10],
    scoring="balanced_accuracy",  # both classes count alike
    cv=5,
    loss="hinge",
).fit(X[january], labels[january])
print(search.best_params_, round(search.best_score_, 3))
# end: search

# begin: certificate
svc = LinearSVC(loss="hinge", tol=1e-4, **search.best_params_).fit(X[january], labels[january])
print(f"{svc.lower_bound_:.4f} <= optimum <= {svc.objective_:.4f}, {svc.certificate_}")
assert svc.converged_
# end: certificate

# begin: errors
predicted = svc.predict(X[february])
print(confusion_matrix(labels[february], predicted, labels=svc.classes_))
scores = svc.decision_function(X[february])
for i in np.flatnonzero(predicted != labels[february]):
    print(f"patient {250 + i}: {labels[february][i]}, score {scores[i]:+.2f}")
accuracy = np.mean(predicted == labels[february])
assert accuracy > 0.9
# end: errors

# begin: save
folder = Path(tempfile.mkdtemp())
svc.save(folder / "model.safetensors")
again = maxmargin.load(folder / "model.safetensors")
assert (again.decision_function(X) == svc.decision_function(X)).all()
# end: save


# begin: serve
def serve(model: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The service on a free port of the loopback interface."""
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", "0", "--no-access-log"]
    here = Path(__file__).resolve().parent
    process = subprocess.Popen(
        command, cwd=here, env={**os.environ, "MODEL": str(model)}, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    for line in process.stderr:  # Uvicorn running on http://127.0.0.1:43210 (...)
        if b"running on" in line:
            port = int(line.split(b"127.0.0.1:")[1].split()[0])
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, port
    raise RuntimeError("the service did not start")


def ask(connection: http.client.HTTPConnection, row: np.ndarray) -> tuple[int, dict]:
    """One request."""
    body = json.dumps({"measurements": row.tolist()})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


# end: serve

# begin: load
service, port = serve(folder / "model.safetensors")
try:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    assert ask(client, rows[0])[1]["label"] == str(svc.predict(X[:1])[0])
    assert ask(client, rows[0][:5])[0] == 422  # five measurements instead of thirty

    took: list[float] = []

    def client_of(patients: np.ndarray) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for row in patients:
            begin = time.perf_counter()
            status, answer = ask(connection, row)
            took.append(time.perf_counter() - begin)
            assert status == 200
            assert answer["label"] in svc.classes_

    clients = [threading.Thread(target=client_of, args=(rows[:250],)) for _ in range(4)]
    begin = time.perf_counter()
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    rate = len(took) / (time.perf_counter() - begin)
    print(
        f"{len(took)} requests, {rate:.0f} per second, 99 % within {np.quantile(took, 0.99):.3f} s"
    )
    assert len(took) == 1000
finally:
    service.terminate()
    service.wait(10)
# end: load

# begin: retrain
new = X[february], labels[february]  # by now, their labels are known
alone = LinearSVC(C=1.0, loss="hinge").fit(*new)
updated = LinearSVC(C=1.0, loss="hinge", prior=GaussianPrior.around(svc)).fit(*new)
for name, model in (("January", svc), ("February", alone), ("updated", updated)):
    moved = np.linalg.norm(model.coef_ - svc.coef_) / np.linalg.norm(svc.coef_)
    score = model.score(X[later], labels[later])
    print(f"{name:9} {score:.3f}, weights moved by {moved:.0%}")
assert updated.converged_
assert updated.score(X[later], labels[later]) >= svc.score(X[later], labels[later])
# end: retrain
