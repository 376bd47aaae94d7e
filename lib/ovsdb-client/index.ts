// OVSDB servers (RFC 7047, ovsdb-server(7)): one session for one database. Everything pure comes through this door too.
export { type Clock, systemClock } from "./clock.ts";
export { type Dial, dial } from "./dial.ts";
export type { LockState } from "./locks.ts";
export * from "./pure.ts";
export { connectOvsdb } from "./session.ts";
export type { Session, SessionOptions, SessionState } from "./session-options.ts";
export type { TlsFiles } from "./tls-files.ts";
