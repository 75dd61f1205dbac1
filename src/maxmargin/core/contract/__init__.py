"""What a solver may ask of a risk: one file for each capability, with its mathematics."""
