// What `run`, `plan` and `uninstall` share: a loop over this host and where its objects come from.

import { inTurns } from "../../lib/turns/index.ts";
import { type HostOptions, openHost } from "../assemble.ts";
import type { Config } from "../config.ts";
import { openFiles } from "../inputs/files.ts";
import { createObjectStore, type ObjectInput } from "../inputs/objects.ts";
import { createLoop, type Loop, type LoopParts } from "../loop.ts";
import type { Objects } from "../model/build.ts";
import { createMode } from "../plan/modes.ts";
import { createContention } from "../sync/contention.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Reports } from "../telemetry/reports/reports.ts";

export interface ObjectOptions {
  readonly lasting: boolean;
  onChange(): void;
  onFailure(error: Error): void;
}

const ONCE: ObjectOptions = { lasting: false, onChange: () => {}, onFailure: () => {} };

/** The source of objects that the settings name. `lasting`: for as long as the process lives, and beyond. */
export async function openObjects(config: Config, options = ONCE): Promise<ObjectInput> {
  if (config.source.kind === "manifests") return openManifests(config.source.directory, options.onChange);
  // 30 MB and half a second that a folder does not need.
  const { connectKubernetes } = await import("../assemble-kubernetes.ts");
  return connectKubernetes(config, options);
}

function openManifests(directory: string, onChange: () => void): ObjectInput {
  const files = openFiles(directory, { onChange });
  const store = createObjectStore();
  return {
    read: async (all) => inTurns(store(await files.read({ all }))),
    told: () => undefined,
    // The folder is there tomorrow, too.
    keep: () => {},
    request: undefined,
    close: async () => files.close(),
  };
}

/** Reports to the server that the objects are read from; to nobody where they are of a folder. */
export async function openReports({ request }: ObjectInput, log: Logger): Promise<Reports> {
  if (request === undefined) return { planned: () => {}, took: () => {}, close: () => {} };
  const { createReports } = await import("../telemetry/reports/reports.ts");
  return createReports({ request, log });
}

export interface Assembled {
  readonly loop: Loop;
  readonly host: Awaited<ReturnType<typeof openHost>>;
  readonly contention: ReturnType<typeof createContention>;
}

export async function assemble(
  config: Config,
  readObjects: (all: boolean) => Promise<Objects>,
  options: HostOptions &
    Pick<LoopParts, "isDraining" | "planned"> & {
      /** The same backends, for somebody who times them. */
      readonly timed?: (backends: LoopParts["backends"]) => LoopParts["backends"];
    },
): Promise<Assembled> {
  const host = await openHost(config, options);
  const contention = createContention(() => performance.now());
  const loop = createLoop({
    settings: config.settings,
    ...(options.isDraining === undefined ? {} : { isDraining: options.isDraining }),
    planned: options.planned,
    mode: createMode(config.settings.gatewayMode),
    backends: options.timed?.(host.backends) ?? host.backends,
    readHost: (dirty) => host.input.read(dirty),
    assumeHost: (facts) => host.input.assume(facts),
    ahead: host.input,
    readObjects,
    contention,
  });
  return { loop, host, contention };
}
