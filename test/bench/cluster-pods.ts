// Pods as a real cluster has them, about 5 KB each as the API server prints them. In: number. Out: the object, as it is stored. Pure.
import { podAddresses } from "./manifests.ts";

/** Of node1 and nine others in turn; `team-N` is one of the namespaces of `manifests`. */
export function clusterPod(index: number, egressIPs: number) {
  const [podIP = ""] = podAddresses(index, false);
  const time = "2026-01-02T03:04:05Z";
  const container = (name: string) => ({
    name,
    image: `registry.example/team/${name}:1.2.3`,
    env: Array.from({ length: 10 }, (_, at) => ({
      name: `SETTING_${name.toUpperCase()}_${at}`,
      value: `https://service-${at}.team.svc.cluster.local:8443/path`,
    })),
    ports: [{ containerPort: 8080, protocol: "TCP" }],
    resources: { limits: { cpu: "1", memory: "512Mi" }, requests: { cpu: "100m", memory: "128Mi" } },
    volumeMounts: [
      {
        mountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
        name: "kube-api-access-x7v2k",
        readOnly: true,
      },
    ],
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    imagePullPolicy: "IfNotPresent",
  });
  const owner = {
    'k:{"uid":"00000000-0000-4000-8000-000000000001"}': { ".": {}, "f:name": {}, "f:uid": {} },
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `pod-${index}`,
      namespace: `team-${index % egressIPs}`,
      uid: `00000000-0000-4000-9000-${String(index).padStart(12, "0")}`,
      creationTimestamp: time,
      labels: { app: "web", "pod-template-hash": "7c5ddbdf54" },
      annotations: {
        "k8s.ovn.org/pod-networks": JSON.stringify({
          default: {
            ip_addresses: [`${podIP}/24`],
            mac_address: "0a:58:0a:f4:00:01",
            gateway_ips: ["10.244.1.1"],
            routes: [
              { dest: "10.244.0.0/16", nextHop: "10.244.1.1" },
              { dest: "10.96.0.0/16", nextHop: "10.244.1.1" },
            ],
            ip_address: `${podIP}/24`,
            role: "primary",
          },
        }),
      },
      managedFields: [
        {
          manager: "kube-controller-manager",
          operation: "Update",
          apiVersion: "v1",
          time,
          fieldsType: "FieldsV1",
          fieldsV1: {
            "f:metadata": {
              "f:labels": { ".": {}, "f:app": {}, "f:pod-template-hash": {} },
              "f:ownerReferences": owner,
            },
            "f:spec": { "f:containers": { 'k:{"name":"main"}': { ".": {}, "f:env": {}, "f:image": {} } } },
          },
        },
      ],
    },
    spec: {
      nodeName: `node${1 + (index % 10)}`,
      containers: [container("main"), container("proxy")],
      volumes: [{ name: "kube-api-access-x7v2k", emptyDir: {} }],
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      serviceAccountName: "default",
      securityContext: {},
      schedulerName: "default-scheduler",
      tolerations: ["not-ready", "unreachable"].map((key) => ({
        key: `node.kubernetes.io/${key}`,
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      })),
    },
    status: {
      phase: "Running",
      conditions: ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
        type,
        status: "True",
        lastProbeTime: null,
        lastTransitionTime: time,
      })),
      hostIP: "172.18.0.11",
      podIP,
      podIPs: [{ ip: podIP }],
      startTime: time,
      containerStatuses: ["main", "proxy"].map((name) => ({
        name,
        state: { running: { startedAt: time } },
        lastState: {},
        ready: true,
        restartCount: 0,
        image: `registry.example/team/${name}:1.2.3`,
        imageID: `registry.example/team/${name}@sha256:${"ab".repeat(32)}`,
        containerID: `containerd://${"cd".repeat(32)}`,
        started: true,
      })),
      qosClass: "Burstable",
    },
  } as const;
}
