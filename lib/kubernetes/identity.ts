// Whom we ask and who we are: server, certificates and headers, as KubeConfig finds them. Read anew at most every minute,
// and at once after something said that they are no longer right. What cannot be read leaves what was, for a rotation
// that is half done.
import { createSecureContext } from "node:tls";
import type { Clock } from "./clock.ts";
import { ConfigurationError } from "./errors.ts";
import { type Loaded, loadConfig } from "./sources.ts";
import type { OpenOptions } from "./types.ts";

export interface Identity {
  /** `https://host:port`, with a path where the server has one. */
  readonly server: string;
  readonly proxy: string | undefined;
  readonly tls: Tls;
  readonly headers: Readonly<Record<string, string>>;
  /** Two of the same are served by the same connections. */
  readonly connectionKey: string;
}

interface Tls {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}

export interface Credentials {
  current(): Promise<Identity>;
  /** The server did not take this one, or could not be reached with it: the next `current` reads anew. */
  doubt(used: Identity, why: Doubt): void;
  /** Why they could not be read anew, last time. */
  readonly failure: Error | undefined;
}

/** A plug-in is run again for the first only: a server that is away is no fault of what it said. */
type Doubt = "refused" | "unreached";

const READ_EVERY_MS = 60_000;
/** For an exec plug-in. */
const DEADLINE_MS = 30_000;

/** Throws ConfigurationError where there is nothing to begin with. */
export async function openCredentials(options: OpenOptions, clock: Clock): Promise<Credentials> {
  let loaded = await loadConfig(options);
  let identity = await identityOf(loaded, clock);
  let readAt = clock.now();
  let doubted: Doubt | undefined;
  let failure: Error | undefined;
  let reading: Promise<void> | undefined;

  const read = async (): Promise<void> => {
    const wasRefused = doubted === "refused";
    doubted = undefined;
    readAt = clock.now();
    try {
      const found = await loadConfig(options);
      // What an exec plug-in said holds until it expires, and is kept with the configuration that ran it.
      const keep = !wasRefused && found.text === loaded.text && hasExec(loaded);
      if (!keep) loaded = found;
      const next = await identityOf(loaded, clock);
      if (!isSame(next, identity)) identity = next;
      failure = undefined;
    } catch (error) {
      failure = error as Error;
    }
  };

  return {
    current: async () => {
      if (doubted !== undefined || clock.now() - readAt >= READ_EVERY_MS)
        reading ??= read().finally(() => {
          reading = undefined;
        });
      await reading;
      return identity;
    },
    doubt: (used, why) => {
      if (used === identity && doubted !== "refused") doubted = why;
    },
    get failure() {
      return failure;
    },
  };
}

const hasExec = ({ config }: Loaded): boolean => config.getCurrentUser()?.exec != null;

const isSame = (a: Identity, b: Identity): boolean =>
  a.connectionKey === b.connectionKey && JSON.stringify(a.headers) === JSON.stringify(b.headers);

async function identityOf({ config }: Loaded, clock: Clock): Promise<Identity> {
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new ConfigurationError("no current cluster");
  const found: Parameters<typeof config.applyToHTTPSOptions>[0] = {};
  try {
    await inTime(config.applyToHTTPSOptions(found), clock);
    const tls = tlsOf(found);
    // Also for a key that is not the certificate's.
    createSecureContext(tls);
    return {
      server: cluster.server.replace(/\/+$/, ""),
      proxy: cluster.proxyUrl,
      tls,
      headers: headersOf(found),
      connectionKey: JSON.stringify([cluster.server, cluster.proxyUrl, tls], (_, value) =>
        Buffer.isBuffer(value) ? value.toString("latin1") : value,
      ),
    };
  } catch (cause) {
    const { message } = cause as Error;
    throw new ConfigurationError(
      `credentials for ${cluster.server} cannot be used: ${message.trim()}`,
      cause,
    );
  }
}

function tlsOf(found: Readonly<Record<string, unknown>>): Tls {
  const names = ["ca", "cert", "key", "servername", "rejectUnauthorized"] as const;
  return Object.fromEntries(
    names.flatMap((name) => (found[name] === undefined ? [] : [[name, found[name]]])),
  );
}

function headersOf({ headers, auth }: { readonly headers?: unknown; readonly auth?: unknown }) {
  const given = Object.entries((headers ?? {}) as Readonly<Record<string, unknown>>);
  // A token file ends with a line feed more often than not.
  const all = given.map(([name, value]) => [name.toLowerCase(), String(value).trim()] as const);
  const basic = typeof auth === "string" ? `Basic ${Buffer.from(auth).toString("base64")}` : undefined;
  return Object.fromEntries([...(basic === undefined ? [] : [["authorization", basic] as const]), ...all]);
}

function inTime<T>(work: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(DEADLINE_MS, () => reject(new Error(`not within ${DEADLINE_MS / 1000} s`)));
    work.then(resolve, reject).finally(cancel);
  });
}
