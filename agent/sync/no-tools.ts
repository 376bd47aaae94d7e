// Tools that refuse: for planning from recorded facts, where nothing may be touched.
import type { Tools } from "./tools.ts";

function refuse(): never {
  throw new Error("a plan from recorded facts writes nothing");
}

export const noTools: Tools = {
  iptables: { restore: refuse },
  ipset: { restore: refuse },
  netlink: { batch: refuse },
  nft: { apply: refuse },
  conntrack: { deleteByMark: refuse, deleteBySource: refuse, changeTranslated: refuse },
  announcer: { start: refuse, stop: refuse, close: () => {} },
  gaining: { released: refuse },
  northbound: { commit: refuse, gone: () => [] },
  writeRecord: refuse,
  writeSysctl: refuse,
};
