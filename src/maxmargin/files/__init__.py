"""The file format of models and checkpoints: plain values and arrays in one safetensors file, and no code."""
