"""Real authorization servers behind a real reverse proxy, for the tests.

Keycloak comes from Maven (pom.xml), oidc-provider from npm (package.json), both into a cache directory; nginx and
the other proxies are the distribution's. What cannot be had raises Unavailable: the tests that need it skip.
"""

import hashlib
import html.parser
import http.cookiejar
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "exposure-agent-tests"
FETCH_LIMIT = 300  # 150 MB, once
START_LIMIT = 120  # Keycloak's first start on two busy cores
TENANT = "orion-123"
CLIENT_ID = "exposure-automation"
CLIENT_SECRET = "s3cret+with%signs"
REDIRECT_URL = "http://127.0.0.1"
PERSON, PASSWORD = "svc-exposure", "hunter2hunter2"
PREFIX = f"/SAAS/t/{TENANT}"


class Unavailable(Exception):
    """Something is missing or could not be fetched."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(name):
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        raise Unavailable(f"{name} is not installed")
    return found


def fetched(name, description, fetch):
    """The directory that fetch(scratch) has filled, once for every content of the description."""
    target = CACHE / f"{name}-{hashlib.sha256(description.read_bytes()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        shutil.copy(description, scratch)
        try:
            fetch(pathlib.Path(scratch))
        except (subprocess.SubprocessError, OSError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise Unavailable(f"{name} could not be fetched: {said.strip().splitlines()[-1:]}") from error
        try:
            pathlib.Path(scratch).rename(target)
            pathlib.Path(scratch).mkdir()  # for the clean-up
        except OSError:
            if not target.is_dir():
                raise
    return target


def run(*command, cwd):
    subprocess.run(command, cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE, text=True, timeout=FETCH_LIMIT)


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, process, what):
    deadline = time.monotonic() + START_LIMIT
    while not condition():
        if process.poll() is not None:
            raise Unavailable(f"{what} ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise Unavailable(f"{what} was not there after {START_LIMIT} s")
        time.sleep(0.2)


class Server:
    """One server process with a directory of its own."""

    def __init__(self, name):
        self.name = name
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.process = None

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


class OidcProvider(Server):
    """node-oidc-provider: decodes Basic credentials as form values, insists on PKCE, forgets all when it ends."""

    paths = {"authorize": "/auth", "token": "/token"}

    def __init__(self, life):
        super().__init__("oidc-provider")
        self.port = free_port()
        self.life = life
        program("npm")
        modules = fetched("oidc-provider", HERE / "package.json", lambda scratch: run(
            program("npm"), "install", "--no-audit", "--no-fund", "--silent", cwd=scratch))
        shutil.copy(HERE / "provider.mjs", self.directory)
        os.symlink(modules / "node_modules", self.directory / "node_modules")
        shutil.copy(HERE / "package.json", self.directory)
        self.start()

    def start(self):
        self.spawn(program("node"), self.directory / "provider.mjs", str(self.port), CLIENT_ID, CLIENT_SECRET,
                   REDIRECT_URL, str(self.life), cwd=self.directory)
        wait_for(lambda: listening(self.port), self.process, self.name)


class Keycloak(Server):
    """Keycloak with single-use refresh tokens; keeps its sessions in a file database while it restarts."""

    paths = {"authorize": f"/realms/{TENANT}/protocol/openid-connect/auth",
             "token": f"/realms/{TENANT}/protocol/openid-connect/token"}

    def __init__(self, life):
        super().__init__("keycloak")
        self.port = free_port()
        for needed in ("java", "mvn"):
            program(needed)
        archive = next(fetched("keycloak", HERE / "pom.xml", lambda scratch: run(
            program("mvn"), "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={scratch}/lib",
            cwd=scratch)).glob("lib/*.zip"))
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(self.directory)
        self.home = next(self.directory.glob("keycloak-*"))
        realm = {
            "realm": TENANT, "enabled": True, "sslRequired": "none", "accessTokenLifespan": life,
            "revokeRefreshToken": True, "refreshTokenMaxReuse": 0, "ssoSessionIdleTimeout": 1800,
            "clients": [{
                "clientId": CLIENT_ID, "secret": CLIENT_SECRET, "redirectUris": [REDIRECT_URL, REDIRECT_URL + ":*"],
                "publicClient": False, "standardFlowEnabled": True,
                "attributes": {"pkce.code.challenge.method": "S256"}}],
            "users": [{
                "username": PERSON, "enabled": True, "email": "svc@example.com", "emailVerified": True,
                "firstName": "Service", "lastName": "User",
                "credentials": [{"type": "password", "value": PASSWORD, "temporary": False}]}],
        }
        imported = self.home / "data" / "import"
        imported.mkdir(parents=True)
        (imported / "realm.json").write_text(json.dumps(realm))
        self.start()

    def start(self):
        self.spawn("/bin/sh", self.home / "bin" / "kc.sh", "start-dev", "--import-realm", "--http-host=127.0.0.1",
                   f"--http-port={self.port}", "--proxy-headers=xforwarded", "--hostname-strict=false",
                   environment={"JAVA_OPTS_APPEND": "-Xmx400m -XX:TieredStopAtLevel=1"})

        def ready():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/realms/{TENANT}", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False

        wait_for(ready, self.process, self.name)


def certificate(directory):
    """(certificate, key) of a server at 127.0.0.1 that vouches for itself."""
    files = directory / "front.pem", directory / "front.key"
    if not files[0].exists():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", str(files[1]), "-out", str(files[0])], check=True, capture_output=True)
    return files


class Nginx(Server):
    """TLS and the reference's paths in front of an authorization server; `behave` makes it fail."""

    # how the token endpoint fails while it does
    FAULTS = {
        "none": "proxy_pass {token};",
        "502": "proxy_pass http://127.0.0.1:1;",
        "503": "return 503;",
        "400 html": "return 400;",
        "401 html": "return 401;",
        "404": "return 404;",
        "413": "return 413;",
        "200 html": "default_type text/html; return 200 '<html><title>Maintenance</title></html>';",
        "302": "return 302 https://127.0.0.1/login;",
        "closed": "return 444;",
        "1.0": "proxy_http_version 1.0; proxy_pass {token};",
    }

    def __init__(self, server):
        super().__init__("nginx")
        self.binary = program("nginx")
        self.server = server
        self.port = free_port()
        self.fault = "none"
        self.certificate, self.key = certificate(self.directory)
        self.ca_file = self.certificate
        self.auth_url = f"https://127.0.0.1:{self.port}{PREFIX}"
        self.start()

    def configuration(self):
        origin = f"http://127.0.0.1:{self.server.port}"
        token = self.FAULTS[self.fault].format(token=origin + self.server.paths["token"])
        return f"""
pid {self.directory}/pid; error_log {self.directory}/error.log; daemon off; worker_processes 1;
events {{}}
http {{
  access_log {self.directory}/access.log; client_body_temp_path {self.directory}/b; proxy_temp_path {self.directory}/p;
  fastcgi_temp_path {self.directory}/f; uwsgi_temp_path {self.directory}/u; scgi_temp_path {self.directory}/s;
  proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto https; proxy_set_header X-Forwarded-For 127.0.0.1;
  proxy_set_header X-Forwarded-Host $http_host; proxy_set_header X-Forwarded-Port {self.port}; proxy_buffer_size 64k;
  proxy_buffers 8 64k; large_client_header_buffers 8 64k; proxy_busy_buffers_size 128k;
  server {{
    listen 127.0.0.1:{self.port} ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.key};
    location = {PREFIX}/auth/oauth2/authorize {{ proxy_pass {origin}{self.server.paths["authorize"]}$is_args$args; }}
    location = {PREFIX}/auth/oauthtoken {{ {token} }}
    location / {{ proxy_pass {origin}; }}
  }}
}}
"""

    def start(self):
        (self.directory / "nginx.conf").write_text(self.configuration())
        self.spawn(self.binary, "-p", self.directory, "-c", self.directory / "nginx.conf")
        wait_for(lambda: listening(self.port), self.process, self.name)

    def behave(self, fault):
        self.fault = fault
        self.kill(signal.SIGTERM)
        self.start()


class Form(html.parser.HTMLParser):
    """The first form of a page: where it goes, and its fields."""

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
    """Redirects are followed until one leads to the client."""

    def redirect_request(self, request, answer, code, message, headers, target):
        if target.startswith(REDIRECT_URL) and not target.startswith("https:"):
            raise Redirected(target)
        return super().redirect_request(request, answer, code, message, headers, target)


class Redirected(Exception):
    pass


def log_in(url, ca_file):
    """What a person does in a browser at the login page; gives the address that the client is sent to."""
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
