"""Losses of scores, R(w) = L(X w)."""

from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.candidates import CandidateHinge
from maxmargin.losses.confusion_matrix import (
    AllConfusionMatrices,
    ConfusionMatrixLoss,
    confusion_matrix_losses,
)
from maxmargin.losses.derivatives import NewtonTerms, SmoothMargin
from maxmargin.losses.dual_terms import ClassTerms, DualTerms, RowTerms
from maxmargin.losses.epsilon_insensitive import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.losses.hinge import CrammerSinger, Hinge
from maxmargin.losses.logistic import Logistic, Multinomial
from maxmargin.losses.measures import AtK, FBeta
from maxmargin.losses.one_class import OneClass
from maxmargin.losses.quantification import QMeasure, QuantificationLoss
from maxmargin.losses.quantile import Quantile
from maxmargin.losses.ranking import NDCG, AveragePrecision, PairHinge, query_labels
from maxmargin.losses.roc_auc import BalancedError, RocAuc
from maxmargin.losses.squared_hinge import OneVsRestSquaredHinge, SquaredHinge

__all__ = [
    "NDCG",
    "AllConfusionMatrices",
    "AtK",
    "AveragePrecision",
    "BalancedError",
    "CandidateHinge",
    "ClassTerms",
    "ConfusionMatrixLoss",
    "CrammerSinger",
    "DualTerms",
    "EpsilonInsensitive",
    "FBeta",
    "Hinge",
    "Logistic",
    "Multinomial",
    "NewtonTerms",
    "OneClass",
    "OneVsRestSquaredHinge",
    "PairHinge",
    "QMeasure",
    "QuantificationLoss",
    "Quantile",
    "RocAuc",
    "RowTerms",
    "ScoreLoss",
    "SmoothMargin",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "confusion_matrix_losses",
    "query_labels",
]
