// An authorization server for the tests: refresh tokens rotate, a reuse revokes the whole grant (node-oidc-provider).
// usage: node provider.mjs PORT CLIENT_ID CLIENT_SECRET REDIRECT_URL ACCESS_TOKEN_SECONDS
import Provider from 'oidc-provider';

const [port, client_id, client_secret, redirect_uri, life] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id, client_secret, redirect_uris: [redirect_uri],
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_basic', application_type: 'native',
  }],
  cookies: {keys: ['tests only']},
  pkce: {required: () => true, methods: ['S256']},
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  ttl: {AccessToken: Number(life), RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600},
});
provider.proxy = true;
provider.listen(Number(port), '127.0.0.1');
