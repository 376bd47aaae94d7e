// The effects that backends may have, as one value: the real ones here, recording ones in tests.
import type { Conntrack } from "../../lib/conntrack/index.ts";
import type { Netlink } from "../../lib/netlink/index.ts";
import type { Nft } from "../../lib/nftables/index.ts";
import type { Ipset, Iptables } from "../../lib/node-iptables/index.ts";
import type { IntentRecord } from "../model/facts.ts";
import type { NorthboundFacts } from "../model/northbound.ts";
import type { Announcer } from "./announcer.ts";
import type { Gaining } from "./gaining.ts";
import type { RowChange } from "./northbound/changes.ts";

export interface Tools {
  readonly iptables: Pick<Iptables, "restore">;
  readonly ipset: Pick<Ipset, "restore">;
  readonly netlink: Pick<Netlink, "batch">;
  readonly nft: Pick<Nft, "apply">;
  readonly conntrack: Pick<Conntrack, "deleteByMark" | "deleteBySource" | "changeTranslated">;
  readonly announcer: Announcer;
  readonly gaining: Gaining;
  readonly northbound: {
    /** All of it or nothing, in one transaction. Throws what the session throws. */
    commit(changes: readonly RowChange[]): Promise<void>;
    /** The facts as they are now; missing where nothing follows the database. */
    read?(): Promise<NorthboundFacts>;
    /** Which of these, who wrote rows and have no Node object now, have been away long enough for their rows to be taken away. */
    gone(absent: readonly string[]): readonly string[];
  };
  /** Writes the state file: whole, then renamed over the old one. */
  writeRecord(record: IntentRecord): Promise<void>;
  /** Writes below /proc/sys. */
  writeSysctl(path: string, value: string): Promise<void>;
}
