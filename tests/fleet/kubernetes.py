"""A fake Kubernetes API server with just what kubectl needs for Secrets, from the public API reference: TLS, a bearer
token, discovery, GET, and server-side apply, which replaces what its field manager owned."""

import base64
import http.server
import json
import pathlib
import ssl
import threading
import urllib.parse

TOKEN = "service-account-token"
VERSION_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
DISCOVERY = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": ["get", "patch"]}]},
    "/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=1"}}},
    "/openapi/v3/api/v1": {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1"}, "paths": {
        "/api/v1/namespaces/{namespace}/secrets/{name}": {"patch": {
            "parameters": [{"name": "fieldValidation", "in": "query"}], "responses": {},
            "x-kubernetes-group-version-kind": {"group": "", "kind": "Secret", "version": "v1"}}}}},
}


def failure(code, reason):
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason,
                  "code": code}


class ApiServer:
    def __init__(self, certificate, key):
        self.secrets = {}  # path -> object
        self.changes = []  # data of each apply
        self.failing = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urllib.parse.urlsplit(self.path)
                if url.path == "/openapi/v2":  # for kubectl before 1.27: an empty document passes its validation
                    return self.send(200, VERSION_2, b"")
                status, answer = outer.answer(self.command, url.path, urllib.parse.parse_qs(url.query), self.headers, body)
                return self.send(status, "application/json", json.dumps(answer).encode())

            do_PATCH = do_GET

            def send(self, status, kind, body):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.certificate = certificate
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def kubeconfig(self, file):
        pathlib.Path(file).write_text(json.dumps({  # JSON is YAML
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url, "certificate-authority": str(self.certificate)}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "agent"}}],
            "users": [{"name": "agent", "user": {"token": TOKEN}}]}))
        return str(file)

    def data(self, namespace, name):
        found = self.secrets.get(f"/api/v1/namespaces/{namespace}/secrets/{name}", {"data": {}})
        return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}

    def answer(self, method, path, query, headers, body):
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return failure(401, "Unauthorized")
        if self.failing:
            return failure(503, "ServiceUnavailable")
        if method == "PATCH":
            if headers.get("Content-Type") != "application/apply-patch+yaml" or "fieldManager" not in query:
                return failure(415, "UnsupportedMediaType")
            wanted = json.loads(body)
            wanted["metadata"]["resourceVersion"] = str(len(self.changes) + 1)
            created = path not in self.secrets
            self.secrets[path] = wanted
            self.changes.append(wanted["data"])
            return (201 if created else 200), wanted
        found = DISCOVERY.get(path) or self.secrets.get(path)
        return (200, found) if found else failure(404, "NotFound")
