"""The Jaccard index of the positive class as a measure to train for."""

from maxmargin.losses import ConfusionMatrixLoss


class Jaccard(ConfusionMatrixLoss):
    """1 - tp / (tp + fp + fn): 0 if all is right, 1 if no positive sample is found."""

    concave_in = "fp"  # 1 - tp / (P + fp): concave in fp for any fn

    def loss(self, tp, fp, fn, tn):
        """The loss of a confusion matrix, or of arrays of them."""
        return 1.0 - tp / (tp + fp + fn)
