// A mode is a name and one pure function. What it plans, it plans from the Snapshot alone.
import type { Snapshot } from "../model/snapshot.ts";
import type { Plan } from "./plan.ts";

export interface Mode {
  readonly name: "local" | "shared";
  plan(snapshot: Snapshot): Plan;
}
