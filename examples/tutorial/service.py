"""The web service of the tutorial: one model, one endpoint.

MODEL=model.safetensors uvicorn service:app
"""

from __future__ import annotations

import os

import numpy as np
from fastapi import FastAPI
from features import features
from pydantic import BaseModel, Field

import maxmargin

model = maxmargin.load(os.environ["MODEL"])
app = FastAPI(title="Cell nuclei")


class Patient(BaseModel):
    """The thirty measurements of one patient."""

    measurements: list[float] = Field(min_length=30, max_length=30)


@app.post("/predict")
def predict(patient: Patient) -> dict[str, str | float]:
    """The label, and the score: negative is malignant, and the distance from zero says how clearly."""
    row = features(np.array([patient.measurements]))
    score = float(model.decision_function(row)[0])
    return {"label": str(model.classes_[int(score > 0)]), "score": score}
