"""What the API server would report about a manifest: schemas/ has the custom resources' schemas."""

import functools
import json
import pathlib

import jsonschema

SCHEMAS = pathlib.Path(__file__).with_name("schemas")
SERVICE = {
    "properties": {
        "apiVersion": {}, "kind": {}, "metadata": {},
        "spec": {
            "properties": {
                "clusterIP": {"type": "string"}, "publishNotReadyAddresses": {"type": "boolean"},
                "selector": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


def mistakes(document):
    """What is wrong with a manifest: unknown fields too, which the API server drops with a warning."""
    return [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in jsonschema.Draft202012Validator(of(document["apiVersion"], document["kind"])).iter_errors(document)
    ]


@functools.cache
def of(api_version, kind):
    """The schema of a kind."""
    if (api_version, kind) == ("v1", "Service"):
        return SERVICE
    if (api_version, kind) == ("v1", "Pod"):
        replicas = of("kubeflow.org/v1", "PyTorchJob")["properties"]["spec"]["properties"]["pytorchReplicaSpecs"]
        return resource(replicas["additionalProperties"]["properties"]["template"]["properties"]["spec"])
    if (api_version, kind) == ("batch/v1", "Job"):
        jobs = of("jobset.x-k8s.io/v1alpha2", "JobSet")["properties"]["spec"]["properties"]["replicatedJobs"]
        return resource(jobs["items"]["properties"]["template"]["properties"]["spec"])
    group, version = api_version.split("/")
    return resource(json.loads((SCHEMAS / f"{group}_{version}_{kind}.json").read_text())["properties"]["spec"])


def resource(spec):
    """The schema of a resource whose `spec` has this one."""
    return {
        "properties": {
            "apiVersion": {}, "kind": {}, "spec": strict(spec),
            "metadata": {"type": "object", "required": ["name"]},
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
    }


def strict(schema):
    """As Kubernetes reads a schema: fields that it does not name are unknown, and its extensions are done."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {
        key: {name: strict(each) for name, each in value.items()} if key == "properties" else strict(value)
        for key, value in schema.items()
    }
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema
