"""Model files on disk: made when they are first needed, by seed; a file of an earlier version of the weights
is made anew."""
import json
import os

from assay_sweep.line import LineError


def model(probe, seed, folder, form="gguf"):
    """(path, what its tokens mean): a file of GGUF, or for form "safetensors" a folder."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{probe}-{seed}" + (".gguf" if form == "gguf" else ""))
    try:
        from assay_sweep import models
    except ImportError as error:
        raise LineError(f"models are computed with numpy, which is missing ({error}): apt-get install python3-numpy") from None
    try:
        with open(path + ".json", encoding="utf-8") as file:
            about = json.load(file)
        if os.path.exists(path) and about.get("version") == models.VERSION:
            return path, about
    except (OSError, ValueError):
        pass
    return path, models.make(probe, seed, path, form)
