// API servers of Kubernetes: one cluster, asked and reflected. Everything pure comes through this door too. Importing it is
// cheap; what is dear (client-node, undici) is loaded by openCluster.
export { type Clock, systemClock } from "./clock.ts";
export { type ClusterParts, openCluster } from "./cluster.ts";
export * from "./pure.ts";
