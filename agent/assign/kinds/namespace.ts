// Namespace as one that may opt in to an EgressIPAM. In: the raw object. Out: a Space. Pure.
import { timestampAt } from "../../model/kinds/egressip.ts";
import type { Meta } from "../../model/kinds/meta.ts";
import { objectAt, type Raw, type Report } from "../../model/raw.ts";
import type { Space } from "../objects.ts";

const OPT_IN_KEY = "egressip-ipam-operator.redhat-cop.io/egressipam";
export const ADDRESSES_KEY = "egressip-ipam-operator.redhat-cop.io/egressips";

export function decodeSpace(_raw: Raw, meta: Meta, report: Report): Space {
  const annotations = objectAt(meta.annotations, "metadata.annotations", report);
  const { [OPT_IN_KEY]: optIn, [ADDRESSES_KEY]: egressIPs } = annotations;
  return {
    kind: "Namespace",
    name: meta.name,
    created: timestampAt(meta.created, "metadata.creationTimestamp", report),
    optIn: typeof optIn === "string" && optIn !== "" ? optIn : undefined,
    egressIPs: typeof egressIPs === "string" ? egressIPs : undefined,
  };
}
