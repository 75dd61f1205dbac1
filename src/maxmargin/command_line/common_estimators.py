"""What ``warm_up()`` compiles by default. The help of the command names it, without importing more."""

COMMON = ("LinearSVC", "LinearSVR", "KernelSVC", "SequenceTagger")
