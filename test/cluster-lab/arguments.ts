// The command lines of etcd and of kube-apiserver, by version: flags come and go. Pure but for asking etcd for its version.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { serviceNetworks } from "../lab/topology.ts";

export interface Ports {
  readonly server: number;
  readonly etcd: number;
  readonly etcdPeer: number;
}

export function etcdArguments(program: string, data: string, ports: Ports): string[] {
  const said = execFileSync(program, ["--version"], { encoding: "utf8" });
  const minor = Number(/etcd Version: 3\.(\d+)/.exec(said)?.[1] ?? 4);
  const [client, peer] = [`http://127.0.0.1:${ports.etcd}`, `http://127.0.0.1:${ports.etcdPeer}`];
  return [
    ...["--name=lab", `--data-dir=${data}`],
    ...[`--listen-client-urls=${client}`, `--advertise-client-urls=${client}`],
    ...[
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=lab=${peer}`,
    ],
    ...["--logger=zap", "--log-level=warn"],
    // Without it the server's bookmarks of a quiet kind stay old.
    `--${minor < 6 ? "experimental-" : ""}watch-progress-notify-interval=5s`,
    // Nobody needs this data after a power cut.
    ...(minor >= 5 ? ["--unsafe-no-fsync"] : []),
  ];
}

export function serverArguments(minor: number, folder: string, ports: Ports): string[] {
  const file = (name: string) => join(folder, name);
  return [
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    // Only a test compacts.
    "--etcd-compaction-interval=0",
    ...["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", `--secure-port=${ports.server}`],
    ...(minor < 24 ? ["--insecure-port=0"] : []),
    ...[`--tls-cert-file=${file("server.crt")}`, `--tls-private-key-file=${file("server.key")}`],
    ...[`--client-ca-file=${file("client-ca.crt")}`, `--cert-dir=${folder}`],
    "--authorization-mode=Node,RBAC",
    "--service-account-issuer=https://kubernetes.default.svc",
    ...[
      `--service-account-key-file=${file("sa.pub")}`,
      `--service-account-signing-key-file=${file("sa.key")}`,
    ],
    `--service-cluster-ip-range=${serviceNetworks[4]}`,
    ...["--endpoint-reconciler-type=none", "--allow-privileged=true"],
    // Would want controllers that nobody runs here.
    "--disable-admission-plugins=ServiceAccount,DefaultStorageClass,StorageObjectInUseProtection",
    "--enable-admission-plugins=NodeRestriction",
    ...(minor === 20 ? ["--feature-gates=EfficientWatchResumption=true"] : []),
  ];
}
