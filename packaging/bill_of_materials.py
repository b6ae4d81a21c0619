"""The list of what is in a released binary, as CycloneDX 1.6."""

import datetime
import hashlib
import os
import uuid

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from ingredients import ingredients


def text(version, architecture, binary):
    """For this binary; the same for the same ingredients: nothing in it is random or of this moment."""
    digest = hashlib.sha256(binary.read_bytes()).hexdigest()
    program = Component(type=ComponentType.APPLICATION, name="rankshim", version=version, bom_ref="rankshim",
                        licenses=[LicenseExpression("MIT")],
                        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
                        description=f"static binary for Linux on {architecture}")
    libraries = [Component(type=ComponentType.LIBRARY, name=part.name, version=part.version, bom_ref=part.name,
                           licenses=[LicenseExpression(part.license)], purl=PackageURL.from_string(part.purl))
                 for part in ingredients()]
    moment = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    bom = Bom(metadata=BomMetaData(component=program, timestamp=moment), components=libraries,
              serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest))
    bom.register_dependency(program, libraries)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
