"""Methods that optimize the dual of a risk: coordinate ascent, Newton steps, streaming, kernel blocks."""
