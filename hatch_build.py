"""Platform wheels: with MAXMARGIN_PLATFORM_WHEEL=1 the wheel has code that is compiled ahead of time.

Without that variable the wheel is pure: it has the sources only, and Numba compiles them on demand. So only
the pure wheel, and what is installed from sources, requires Numba.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

#: numba.pycc is deprecated, so one version that is known to work compiles all wheels
COMPILERS = ["numba==0.68.1", "numpy>=2.1", "setuptools>=77"]


def is_platform_wheel() -> bool:
    """Whether a platform wheel was asked for."""
    return os.environ.get("MAXMARGIN_PLATFORM_WHEEL", "0") not in ("", "0")


def bill_of_materials(version: str) -> dict[str, Any]:
    """What is in the compiled modules, for tools that look for known weaknesses (CycloneDX, PEP 770)."""

    def component(name: str, version: str, license: str, of: str = "library") -> dict[str, Any]:
        licenses = [{"license": {"id": license}}]
        url = f"pkg:pypi/{name}@{version}"
        return {"type": of, "name": name, "version": version, "purl": url, "licenses": licenses}

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component("maxmargin", version, "BSD-3-Clause")},
        "components": [  # Numba's runtime is part of each module; all are compiled against NumPy's headers
            component("numba", metadata.version("numba"), "BSD-2-Clause"),
            component("llvmlite", metadata.version("llvmlite"), "BSD-2-Clause", "application"),
            component("numpy", metadata.version("numpy"), "BSD-3-Clause"),
        ],
    }


class Dependencies(MetadataHookInterface):
    """What a wheel requires. In an sdist, hatchling does not call this: it reads PKG-INFO."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dependencies."""
        numba = [] if is_platform_wheel() else metadata["optional-dependencies"]["compile"]
        metadata["dependencies"] = [*self.config["dependencies"], *numba]


class PlatformWheel(BuildHookInterface):  # type: ignore[type-arg]
    """Compile, and add the extension modules to the wheel."""

    def dependencies(self) -> list[str]:
        """What the build requires, in addition to the requirements of pyproject.toml."""
        return COMPILERS if is_platform_wheel() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is written."""
        if not is_platform_wheel() or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        tool = Path(self.root, "tools", "build_kernels.py")
        subprocess.run([sys.executable, tool, self._folder.name], check=True)
        required = self.metadata.core.dependencies  # in an sdist, those of the pure wheel
        required[:] = [text for text in required if not text.startswith("numba")]
        bill = Path(self._folder.name, "maxmargin.cdx.json")
        bill.write_text(json.dumps(bill_of_materials(self.metadata.version), indent=1) + "\n")
        build_data["sbom_files"].append(str(bill))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in sorted({*Path(self._folder.name).iterdir()} - {bill}):
            build_data["force_include"][str(path)] = f"maxmargin/compiled/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after the wheel is written."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
