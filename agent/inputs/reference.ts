// OVN-Kubernetes' objects for egress IPs in its nft table. In: nft. Out: ReferenceFacts, the same object while there are none.

import type { Nft } from "../../lib/nftables/index.ts";
import { parseElements, parseNames } from "../../lib/nftables/pure.ts";
import { NO_REFERENCE, type ReferenceFacts, type Translation } from "../model/facts.ts";
import { familyOf, parseAddress } from "../model/ip.ts";
import { byCodeUnit } from "../model/names.ts";
import { onLink } from "../model/on-link.ts";
import { NFT_CHAINS, NFT_MAPS, NFT_TABLE } from "../model/reference.ts";

/** One process where it has none: the table holds much else, with an element for each service. */
export async function readReference(nft: Pick<Nft, "listTerse" | "listMap">): Promise<ReferenceFacts> {
  const { chains, maps } = parseNames((await nft.listTerse("inet", NFT_TABLE)) ?? "");
  const theirChains = NFT_CHAINS.filter((name) => chains.includes(name));
  const theirMaps = NFT_MAPS.filter((name) => maps.includes(name));
  if (theirChains.length === 0 && theirMaps.length === 0) return NO_REFERENCE;
  const listed = await Promise.all(theirMaps.map((name) => nft.listMap("inet", NFT_TABLE, name)));
  const found = new Map<string, Translation>();
  for (const { key, value } of listed.flatMap((text) => parseElements(text ?? ""))) {
    const [address, link] = [parseAddress(value), key[1]];
    if (address === undefined || link === undefined) continue;
    const translation = { family: familyOf(address), link, address };
    found.set(onLink(translation), translation);
  }
  const translations = [...found].sort(([a], [b]) => byCodeUnit(a, b)).map(([, translation]) => translation);
  return Object.freeze({ chains: theirChains, maps: theirMaps, translations });
}
