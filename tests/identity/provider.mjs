// An authorization server for the tests: refresh tokens rotate, a reuse revokes the whole grant (node-oidc-provider).
// Its state survives kill -9: each change is written to a journal before the response is sent.
// usage: node provider.mjs PORT ACCESS_TOKEN_SECONDS JOURNAL CLIENTS   (CLIENTS: JSON, {id: {secret, redirect_urls, life}})
import fs from 'node:fs';
import Provider from 'oidc-provider';

const [port, life, path, given] = process.argv.slice(2);
const clients = JSON.parse(given);
const stored = new Map();

function play({key, value}) {
  value === null ? stored.delete(key) : stored.set(key, value);
}

if (fs.existsSync(path)) {
  for (const line of fs.readFileSync(path, 'utf8').split('\n')) {
    try { play(JSON.parse(line)); } catch { /* the last line, cut off */ }
  }
}
const journal = fs.openSync(path, 'a');

function change(key, value) {
  fs.writeSync(journal, '\n' + JSON.stringify({key, value}));
  play({key, value});
  if (key.startsWith('RefreshToken:')) committed = process.hrtime.bigint();
}

let committed;

class Journaled {
  constructor(model) { this.model = model; }
  key(id) { return `${this.model}:${id}`; }
  async upsert(id, payload) { change(this.key(id), payload); }
  async find(id) { return stored.get(this.key(id)); }
  async findByUid(uid) {
    for (const [key, value] of stored) if (key.startsWith(this.key('')) && value.uid === uid) return value;
  }
  async findByUserCode() {}
  async consume(id) { change(this.key(id), {...stored.get(this.key(id)), consumed: Math.floor(Date.now() / 1000)}); }
  async destroy(id) { change(this.key(id), null); }
  async revokeByGrantId(grant) {
    for (const [key, value] of stored) if (value.grantId === grant) change(key, null);
  }
}

const provider = new Provider(`http://127.0.0.1:${port}`, {
  adapter: Journaled,
  clients: Object.entries(clients).map(([client_id, client]) => ({
    client_id, client_secret: client.secret, redirect_uris: client.redirect_urls,
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_basic', application_type: 'native',
  })),
  cookies: {keys: ['tests only']},
  pkce: {required: () => true, methods: ['S256']},
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  ttl: {
    AccessToken: Number(life), Grant: 3600, Session: 3600, Interaction: 600,
    RefreshToken: (_context, token, client) => {
      const limit = clients[client.clientId].life ?? 3600;
      return token.iiat ? token.iiat + limit - Math.floor(Date.now() / 1000) : limit;  // age of the session, not of the token
    },
  },
});
provider.proxy = true;
// Logs microseconds from the last change of a refresh token to the end of the response, one per line: see figures.md.
provider.use(async (context, next) => {
  committed = undefined;
  await next();
  const since = committed;
  if (since) context.res.on('finish', () => fs.appendFileSync(path + '.times', `${(process.hrtime.bigint() - since) / 1000n}\n`));
});
provider.listen(Number(port), '127.0.0.1');
