"""Real defects: before their fix, and after it."""
