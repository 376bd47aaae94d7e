// The modes there are. A new one is a file in modes/ and a line here.
import type { GatewayMode } from "../model/settings.ts";
import type { Mode } from "./mode.ts";
import { createLocalGateway } from "./modes/local-gateway.ts";
import { createSharedGateway } from "./modes/shared-gateway.ts";

/** A mode with a memory of its own: what it remembers only saves work. */
export function createMode(name: GatewayMode): Mode {
  return name === "local" ? createLocalGateway() : createSharedGateway();
}
