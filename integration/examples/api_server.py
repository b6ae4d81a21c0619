"""Stands in for Kubernetes' API server, so that a real kubectl can apply a manifest.

It has the kinds of schemas/, announces them as the API server does (discovery, OpenAPI v3), refuses what their schemas refuse, and
keeps the rest. No controller acts on what it keeps.
"""

import contextlib
import http.server
import json
import re
import threading
import urllib.parse

from examples.schema import SCHEMAS, mistakes

NOT_NAMESPACED = {"ClusterPolicy", "ClusterTrainingRuntime"}
PODS = "v1", "Pod"


@contextlib.contextmanager
def api_server(kubeconfig):
    """Runs it, writes the file that kubectl needs to find it, and yields what it keeps: {path: document}."""
    kept = {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"kept": kept}))
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
    }))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def kinds():
    """{group and version: {plural name: kind}}."""
    found = {PODS[0]: {"pods": PODS[1]}}
    for path in sorted(SCHEMAS.glob("*.json")):
        group, version, kind = path.stem.rsplit("_", 2)
        plural = re.sub("y$", "ie", kind.lower()) + "s"
        found.setdefault(f"{group}/{version}", {})[plural] = kind
    return found


def root(group_version):
    return ("apis/" if "/" in group_version else "api/") + group_version


class Handler(http.server.BaseHTTPRequestHandler):
    kept: dict

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path.strip("/")
        if path in self.kept:
            return self._answer(200, self.kept[path])
        described = self._described()
        return self._answer(200, described[path]) if path in described else self._fail(404, "NotFound", f"{path} is not there")

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if urllib.parse.parse_qs(url.query).get("fieldValidation") != ["Strict"]:
            return self._fail(400, "BadRequest", "kubectl asks for no strict validation")
        if wrong := mistakes(document):
            return self._fail(400, "BadRequest", "; ".join(wrong))
        self.kept[f"{url.path.strip('/')}/{document['metadata']['name']}"] = document
        return self._answer(201, document)

    def _described(self):
        """The API server's description of its kinds."""
        known = kinds()
        groups = {}
        for group_version in known:
            group, slash, version = group_version.partition("/")
            if slash:
                entry = {"groupVersion": group_version, "version": version}
                groups.setdefault(group, {"name": group, "versions": [], "preferredVersion": entry})["versions"].append(entry)
        described = {
            "api": {"kind": "APIVersions", "versions": ["v1"]},
            "apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())},
            "openapi/v3": {"paths": {
                root(each): {"serverRelativeURL": f"/openapi/v3/{root(each)}"} for each in known
            }},
        }
        for group_version, resources in known.items():
            group, _, version = group_version.rpartition("/")
            described[root(group_version)] = {"kind": "APIResourceList", "groupVersion": group_version, "resources": [
                {"name": plural, "singularName": kind.lower(), "kind": kind, "verbs": ["get", "create"],
                 "namespaced": kind not in NOT_NAMESPACED}
                for plural, kind in resources.items()
            ]}
            # Here kubectl looks whether the server itself finds unknown fields.
            described[f"openapi/v3/{root(group_version)}"] = {"openapi": "3.0.0", "paths": {
                f"/{root(group_version)}/{plural}/{{name}}": {"patch": {
                    "parameters": [{"name": "fieldValidation", "in": "query"}],
                    "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
                }}
                for plural, kind in resources.items()
            }}
        return described

    def _fail(self, code, reason, message):
        self._answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
                            "code": code})

    def _answer(self, code, document):
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The test shows what kubectl prints."""
