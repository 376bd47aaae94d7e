// A server of gRPC's health protocol (grpc.health.v1.Health), method Check, on addresses that may change while it runs.
// In: port, addresses, what to say of a service. Out: answers; onFailure for an address that cannot be listened at.
import {
  experimental,
  logVerbosity,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  setLogVerbosity,
} from "@grpc/grpc-js";
import { followIdentity, type IdentityFiles } from "./identity.ts";
import { decodeRequest, encodeResponse, type ServingStatus } from "./wire.ts";

export type { ServingStatus } from "./wire.ts";

export interface HealthOptions {
  readonly port: number;
  /** Plain text where left out. No certificate is asked of who connects. */
  readonly identity?: IdentityFiles;
  /** Of the name that was asked for; empty where none was. */
  status(service: string): ServingStatus;
  /** `subject` is an address, or the certificate's file. Called again each time; undefined when it is well again. */
  onFailure(subject: string, error: Error | undefined): void;
}

export interface HealthServer {
  /** Listens at these and at nothing else; one at which that fails is tried again by the next call. */
  listen(addresses: Iterable<string>): void;
  /** Ends all connections at once. */
  close(): void;
}

/** Watch is not there, which gRPC answers with UNIMPLEMENTED, as OVN-Kubernetes' own server does. */
const HEALTH: ServiceDefinition = {
  Check: {
    path: "/grpc.health.v1.Health/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: () => Buffer.alloc(0),
    // An object, since gRPC takes an empty text for no message at all.
    requestDeserialize: (bytes: Buffer) => ({ service: decodeRequest(bytes) }),
    responseSerialize: encodeResponse,
    responseDeserialize: (bytes) => bytes,
  },
};

export function createHealthServer(options: HealthOptions): HealthServer {
  const { port, identity: files, status, onFailure } = options;
  const identity =
    files === undefined
      ? undefined
      : followIdentity(files, (error) => onFailure(files.certificateFile, error));
  // What it would write to standard error is told to onFailure.
  setLogVerbosity(logVerbosity.NONE);
  const servers = new Map<string, Server>();
  const start = (address: string): void => {
    const server = new Server({ "grpc.enable_channelz": 0 });
    server.addService(HEALTH, {
      Check: (call: { request: { service: string } }, answer: (error: null, status: ServingStatus) => void) =>
        answer(null, status(call.request.service)),
    });
    const credentials =
      identity === undefined
        ? ServerCredentials.createInsecure()
        : experimental.createCertificateProviderServerCredentials(identity, null, false);
    servers.set(address, server);
    server.bindAsync(
      address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`,
      credentials,
      (error) => {
        if (servers.get(address) !== server) return;
        if (error !== null) servers.delete(address);
        onFailure(address, error ?? undefined);
      },
    );
  };
  return {
    listen: (addresses) => {
      const wanted = new Set(addresses);
      for (const [address, server] of servers) {
        if (wanted.has(address)) continue;
        servers.delete(address);
        server.forceShutdown();
      }
      for (const address of wanted) if (!servers.has(address)) start(address);
    },
    close: () => {
      identity?.close();
      for (const server of servers.values()) server.forceShutdown();
      servers.clear();
    },
  };
}
