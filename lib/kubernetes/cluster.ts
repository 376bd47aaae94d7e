// A cluster: one identity, one pool of connections, and the reflections that use them. In: where the configuration is. Out:
// requests and reflections, until closed.
import { createRest } from "../turns/index.ts";
import { type Clock, systemClock } from "./clock.ts";
import { ParseError, UnreachableError } from "./errors.ts";
import { openCredentials } from "./identity.ts";
import { type ReflectionSettings, reflect, reflectionDefaults, type ServerTraits } from "./reflection.ts";
import { openTransport, unreachable } from "./transport.ts";
import type { Cluster, OpenOptions, Reflection, ReflectionParts, RequestOptions } from "./types.ts";

/** What tests hand in. */
export interface ClusterParts extends Partial<ReflectionSettings> {}

/** Throws ConfigurationError; that the server is away is no reason to. */
export async function openCluster(options: OpenOptions = {}, parts: ClusterParts = {}): Promise<Cluster> {
  const clock: Clock = parts.clock ?? systemClock;
  const settings: ReflectionSettings = { ...reflectionDefaults, random: Math.random, ...parts, clock };
  const { userAgent = "kubernetes-reflector", connections = 16, timeoutMs = 30_000 } = options;
  const rest = createRest();
  const credentials = await openCredentials(options, clock);
  // Each loads a library that is dear.
  await rest();
  const transport = await openTransport(credentials, { userAgent, connections, headersTimeoutMs: timeoutMs });
  const traits: ServerTraits = { watchList: true };
  const reflections = new Set<{ close(): void }>();
  const { server } = await credentials.current();

  const request = async (method: string, path: string, given: RequestOptions = {}): Promise<unknown> => {
    const abort = new AbortController();
    const signal = given.signal === undefined ? abort.signal : AbortSignal.any([given.signal, abort.signal]);
    const cancel = clock.after(timeoutMs, () =>
      abort.abort(new UnreachableError(`${method} ${server}${path}: no answer within ${timeoutMs / 1000} s`)),
    );
    try {
      const { asked, body } = await transport.open(method, path, { ...given, signal });
      const text = await body.text().catch((cause) => {
        throw signal.aborted ? signal.reason : unreachable(asked, cause);
      });
      return read(asked, text);
    } finally {
      cancel();
    }
  };

  return {
    server,
    request,
    reflect: <T>(wanted: ReflectionParts<T>): Reflection<T> => {
      const reflection: Reflection<T> = reflect(transport, traits, wanted, settings, () =>
        reflections.delete(reflection),
      );
      reflections.add(reflection);
      return reflection;
    },
    close: async () => {
      for (const reflection of reflections) reflection.close();
      await transport.close();
    },
  };
}

function read(asked: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ParseError(`${asked}: an answer that is no JSON: ${text.slice(0, 200)}`, cause);
  }
}
