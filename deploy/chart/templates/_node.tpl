{{/* What the pods of nodes have in common: checks, clean-up, and where they run. */}}

{{/* The first container of a node's pods: it ends with an error while the node is not fit. dict: root, group. */}}
{{- define "ovn-offload.preflight" -}}
{{- if .root.Values.preflight.enabled -}}
initContainers:
  - name: preflight
    image: {{ include "ovn-offload.image" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [ovn-offload-agent, preflight, --gate, --root=/host, --termination-message=/dev/termination-log]
    args:
      - --node-name=$(NODE_NAME)
      - --cluster-cidrs=$(NET_CIDR)
      - --masquerade-cidrs={{ join "," .root.Values.network.masqueradeCIDRs }}
      - --gateway-interface=$(GATEWAY_INTERFACE)
      - --gateway-next-hop=$(GATEWAY_NEXT_HOP)
      - --encap-ip=$(ENCAP_IP)
      - --datapath=$(DATAPATH)
      - --mtu=$(MTU)
      - --checkpoint=/host{{ .root.Values.paths.state }}/node.json
      - --cni-conf-dir=/host{{ .root.Values.paths.cniConf }}
      - --host-ovs={{ not .group.settings.openvswitch }}
      {{- with concat .root.Values.preflight.skip (ternary (list "uplink" "addresses" "cni" "kube-proxy" "network-service" "dhcp") list .root.Values.networks.secondaryOnly) }}
      - --skip={{ join "," . }}
      {{- end }}
    env:
      - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
      - {name: NET_CIDR, valueFrom: {configMapKeyRef: {name: ovn-config, key: net_cidr}}}
      - {name: GATEWAY_INTERFACE, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: gateway_interface}}}
      - {name: GATEWAY_NEXT_HOP, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: gateway_next_hop}}}
      - {name: ENCAP_IP, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: encap_ip}}}
      - {name: DATAPATH, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: datapath}}}
      - {name: MTU, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: mtu}}}
    resources: {{ toJson .root.Values.resources.agent }}
    securityContext:
      privileged: true # reads which processes have ports, and asks the kernel about devices
      readOnlyRootFilesystem: true
    volumeMounts:
      - {name: host, mountPath: /host, readOnly: true}
{{- end -}}
{{- end }}

{{/* The container that cleans a node: args, env, mounts and all. dict: root, group, verb. */}}
{{- define "ovn-offload.cleanup" -}}
- name: cleanup
  image: {{ include "ovn-offload.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [ovn-daemon, {{ .verb }}]
  args:
    - --node-name=$(NODE_NAME)
    - --apiserver=$(K8S_APISERVER)
    - --ovsdb=unix:/run/openvswitch/db.sock
    - --cluster-cidrs=$(NET_CIDR)
    - --service-cidrs=$(SVC_CIDR)
    - --masquerade-cidrs={{ join "," .root.Values.network.masqueradeCIDRs }}
    - --gateway-interface=$(GATEWAY_INTERFACE)
    - --exgw-interface=$(EXGW_INTERFACE)
    - --datapath=$(DATAPATH)
    {{- if .root.Values.networks.secondaryOnly }}
    - --secondary-only
    {{- end }}
    {{- if not .root.Values.cni.manageConf }}
    - --manage-cni-conf=false
    {{- end }}
    - --systemd-units={{ .root.Values.paths.systemdUnits }}
    - --log-level=$(LOG_LEVEL)
  env:
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: K8S_APISERVER, valueFrom: {configMapKeyRef: {name: ovn-config, key: k8s_apiserver}}}
    - {name: NET_CIDR, valueFrom: {configMapKeyRef: {name: ovn-config, key: net_cidr}}}
    - {name: SVC_CIDR, valueFrom: {configMapKeyRef: {name: ovn-config, key: svc_cidr}}}
    - {name: GATEWAY_INTERFACE, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: gateway_interface}}}
    - {name: EXGW_INTERFACE, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: exgw_interface}}}
    - {name: DATAPATH, valueFrom: {configMapKeyRef: {name: ovn-config{{ .group.suffix }}, key: datapath}}}
    - {name: LOG_LEVEL, valueFrom: {configMapKeyRef: {name: ovn-config, key: log_level}}}
  readinessProbe:
    exec: {command: [test, -e, /tmp/cleaned]}
    periodSeconds: {{ ternary 10 1 .group.settings.slowMachine }}
    timeoutSeconds: 10
  resources: {{ toJson .root.Values.resources.agent }}
  securityContext:
    privileged: true # network devices, nftables, sysctls
  volumeMounts:
    {{- if eq .verb "leave" }}
    - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
    {{- end }}
    - {name: run-openvswitch, mountPath: /run/openvswitch}
    - {name: cni-conf, mountPath: /etc/cni/net.d}
    - {name: state, mountPath: /var/lib/ovn-offload}
    {{- with .root.Values.paths.systemdUnits }}
    - {name: systemd-units, mountPath: {{ . }}}
    {{- end }}
    {{- include "ovn-offload.servicesMounts" . | nindent 4 }}
{{- end }}

{{/* Where an agent keeps the host's network services off its devices: files of one boot, and the bus to tell the services. */}}
{{- define "ovn-offload.servicesMounts" -}}
- {name: udev-rules, mountPath: /run/udev/rules.d}
- {name: networkd, mountPath: /run/systemd/network}
- {name: networkmanager, mountPath: /run/NetworkManager/conf.d}
- {name: dbus, mountPath: /run/dbus}
{{- end }}

{{- define "ovn-offload.servicesVolumes" -}}
- {name: udev-rules, hostPath: {path: /run/udev/rules.d, type: DirectoryOrCreate}}
- {name: networkd, hostPath: {path: /run/systemd/network, type: DirectoryOrCreate}}
- {name: networkmanager, hostPath: {path: /run/NetworkManager/conf.d, type: DirectoryOrCreate}}
- {name: dbus, hostPath: {path: /run/dbus, type: DirectoryOrCreate}}
{{- end }}

{{/* The volumes of that container. */}}
{{- define "ovn-offload.cleanupVolumes" -}}
- {name: run-openvswitch, hostPath: {path: /run/openvswitch, type: DirectoryOrCreate}}
- {name: cni-conf, hostPath: {path: {{ .Values.paths.cniConf }}, type: DirectoryOrCreate}}
- {name: state, hostPath: {path: {{ .Values.paths.state }}, type: DirectoryOrCreate}}
{{- with .Values.paths.systemdUnits }}
- {name: systemd-units, hostPath: {path: {{ . }}, type: DirectoryOrCreate}}
{{- end }}
{{ include "ovn-offload.servicesVolumes" . }}
{{- end }}

{{- define "ovn-offload.token" -}}
- name: token
  projected:
    defaultMode: 0400
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}

{{/* The nodes of a group, as expressions. */}}
{{- define "ovn-offload.groupNodes" -}}
{{- with .label }}
- {key: {{ .key }}, operator: In, values: {{ toJson .values }}}
{{- end }}
{{- range .before }}
- {key: {{ .key }}, operator: NotIn, values: {{ toJson .values }}}
{{- end }}
{{- end }}

{{/* Affinity of what the clean-up of a node needs: on a node with another role, too, while the node is not cleaned. */}}
{{- define "ovn-offload.switchAffinity" -}}
{{ include "ovn-offload.groupAffinity" . }}
      - matchExpressions:
          - {key: ovn-offload.io/set-up, operator: In, values: [full]}
          {{- include "ovn-offload.groupNodes" . | nindent 10 }}
{{- end }}

{{/* Affinity of the clean-up of nodes that have got another role. */}}
{{- define "ovn-offload.leaveAffinity" -}}
{{- $group := . -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- range list "k8s.ovn.org/dpu-host" "k8s.ovn.org/dpu" }}
      - matchExpressions:
          - {key: {{ . }}, operator: Exists}
          - {key: ovn-offload.io/set-up, operator: In, values: [full]}
          {{- include "ovn-offload.groupNodes" $group | nindent 10 }}
      {{- end }}
{{- end }}
