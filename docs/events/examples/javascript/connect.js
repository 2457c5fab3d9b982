// How each of the programs here reaches NATS: the login comes from the environment.
import { readFileSync } from "node:fs";
import { connect as dial, credsAuthenticator } from "@nats-io/transport-node";

export const account = process.env.PERENNIAL_ACCOUNT ?? "main";
export const stream = `PERENNIAL_EVENTS_${account}`;

export function connect() {
  const { NATS_URL = "nats://127.0.0.1:4222", NATS_USER, NATS_PASSWORD, NATS_CREDS } = process.env;
  const options = { servers: NATS_URL.split(","), maxReconnectAttempts: -1, reconnectTimeWait: 500 };
  if (NATS_CREDS) options.authenticator = credsAuthenticator(readFileSync(NATS_CREDS));
  if (NATS_USER) Object.assign(options, { user: NATS_USER, pass: NATS_PASSWORD });
  return dial(options).catch((error) => {
    console.error(`no NATS server at NATS_URL, or not with this login: ${error.message}`);
    process.exit(1);
  });
}

// Asks a verb of the account's service, and throws what it answers as an error.
export async function ask(nc, verb, question, timeout = 10_000) {
  const answer = await nc.request(`perennial.svc.${account}.${verb}`, JSON.stringify(question), { timeout });
  const code = answer.headers?.get("Nats-Service-Error-Code");
  if (code) throw Object.assign(new Error(answer.headers.get("Nats-Service-Error")), { code });
  return answer.json();
}

// Does it until it works, for as long as a runner or a server may take to come back.
export async function persist(what, patience = 5 * 60_000) {
  for (const end = Date.now() + patience; ; await pause(500)) {
    try {
      return await what();
    } catch (error) {
      if (Date.now() > end || hopeless(error)) throw error;
    }
  }
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What the service refuses, and what the server forbids, is refused the next time too.
const hopeless = (error) =>
  ["bad_request", "unproven"].includes(error.code) ||
  ["PermissionViolationError", "AuthorizationError"].some((name) => error.name === name || error.cause?.name === name);
