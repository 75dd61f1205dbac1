"""How the dual of a risk over rows is improved: coordinate ascent, Newton steps, streams, kernel blocks."""
