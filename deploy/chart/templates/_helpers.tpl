{{/* Names, addresses and settings that several templates use. A missing value is an error with one sentence. */}}

{{- define "ovn-offload.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The API server's address: no Service address, because those need this network. */}}
{{- define "ovn-offload.apiServer" -}}
{{- $info := dict -}}
{{- if and .Values.controlPlane.enabled (not .Values.apiServer) -}}
{{- $info = lookup "v1" "ConfigMap" "kube-public" "cluster-info" -}}
{{- end -}}
{{- if .Values.apiServer -}}
{{ .Values.apiServer }}
{{- else if $info -}}
{{ (first (fromYaml (get $info.data "kubeconfig")).clusters).cluster.server }}
{{- else -}}
{{ fail "set apiServer to the URL of the API server, such as https://192.0.2.10:6443: the chart cannot find it here" }}
{{- end -}}
{{- end }}

{{/* The Node that runs the databases, its address, and the endpoints, in JSON. The former choice stays: the files are there. */}}
{{- define "ovn-offload.databases" -}}
{{- if gt (int .Values.databases.members) 1 -}}
{{ include "ovn-offload.cluster" . }}
{{- else -}}
{{- $node := .Values.databases.node -}}
{{- $address := .Values.databases.address -}}
{{- $former := lookup "v1" "ConfigMap" "ovn-kubernetes" "ovn-config" -}}
{{- if and $former (not $address) -}}
{{- $address = get $former.data "ovn_nb" | splitList "," | first | trimPrefix "ssl:" | trimSuffix ":6641" | trimAll "[]" -}}
{{- end -}}
{{- if and (not $address) .Values.controlPlane.enabled -}}
{{- $masters := list -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- if and (hasKey .metadata.labels "node-role.kubernetes.io/control-plane") (or (not $node) (eq .metadata.name $node)) -}}
{{- $masters = append $masters . -}}
{{- end -}}
{{- end -}}
{{- if $masters -}}
{{- $address = include "ovn-offload.internalIP" (first $masters) -}}
{{- $node = (first $masters).metadata.name -}}
{{- end -}}
{{- end -}}
{{- if not $address -}}
{{- fail "set databases.address to the address of the control-plane node that runs OVN's databases: the chart cannot find it here" -}}
{{- end -}}
{{- $address = include "ovn-offload.host" $address -}}
{{- if and (not $node) $former -}}
{{- $node = get $former.data "db_node" -}}
{{- end -}}
{{ dict "node" (default "" $node) "nodes" (ternary (list $node) list (not (empty $node))) "members" "" "nb" (printf "ssl:%s:6641" $address) "sb" (printf "ssl:%s:6642" $address) "sbMembers" "unix:/run/ovn/ovnsb_db.sock" | toJson }}
{{- end -}}
{{- end }}

{{/* The same for clusters. Former members whose Nodes exist stay, the one that created the clusters at first. */}}
{{- define "ovn-offload.cluster" -}}
{{- $wanted := int .Values.databases.members -}}
{{- $masters := .Values.databases.masters -}}
{{- if and (not $masters) .Values.controlPlane.enabled -}}
{{- $addresses := dict -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- if hasKey .metadata.labels "node-role.kubernetes.io/control-plane" -}}
{{- $_ := set $addresses .metadata.name (include "ovn-offload.internalIP" .) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- with lookup "v1" "ConfigMap" "ovn-kubernetes" "ovn-config" -}}
{{- range splitList "," (get .data "db_members") -}}
{{- $names = append $names (splitList "=" . | first) -}}
{{- end -}}
{{- $names = append $names (get .data "db_node") -}}
{{- end -}}
{{- range concat $names (list $.Values.databases.node) (keys $addresses | sortAlpha) | uniq -}}
{{- if and (hasKey $addresses .) (lt (len $masters) $wanted) -}}
{{- $masters = append $masters (dict "node" . "address" (get $addresses .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if ne (len $masters) $wanted -}}
{{- fail (printf "set databases.masters to the %d control-plane nodes with the databases, each with node and address: there are %d" $wanted (len $masters)) -}}
{{- end -}}
{{- $nodes := list -}}
{{- $members := list -}}
{{- $nb := list -}}
{{- $sb := list -}}
{{- $sbMembers := list -}}
{{- range $masters -}}
{{- $host := include "ovn-offload.host" .address -}}
{{- $nodes = append $nodes .node -}}
{{- $members = append $members (printf "%s=%s" .node $host) -}}
{{- $nb = append $nb (printf "ssl:%s:6641" $host) -}}
{{- $sb = append $sb (printf "ssl:%s:6642" $host) -}}
{{- $sbMembers = append $sbMembers (printf "ssl:%s:6645" $host) -}}
{{- end -}}
{{ dict "node" (first $nodes) "nodes" $nodes "members" (join "," $members) "nb" (join "," $nb) "sb" (join "," $sb) "sbMembers" (join "," $sbMembers) | toJson }}
{{- end }}

{{/* A Node's InternalIP. */}}
{{- define "ovn-offload.internalIP" -}}
{{- $address := "" -}}
{{- range .status.addresses -}}
{{- if and (eq .type "InternalIP") (not $address) -}}
{{- $address = .address -}}
{{- end -}}
{{- end -}}
{{ $address }}
{{- end }}

{{/* An address as part of an endpoint. */}}
{{- define "ovn-offload.host" -}}
{{- if contains ":" . -}}
[{{ trimAll "[]" . }}]
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}

{{/* kubeadm's value of a network, or nothing. */}}
{{- define "ovn-offload.kubeadmNetwork" -}}
{{- if not .root.Values.controlPlane.enabled -}}
{{- fail (printf "set network.%s to the value of the hosts' cluster" .value) -}}
{{- end -}}
{{- $config := lookup "v1" "ConfigMap" "kube-system" "kubeadm-config" -}}
{{- if $config -}}
{{ dig "networking" .key "" (fromYaml (get $config.data "ClusterConfiguration")) }}
{{- end -}}
{{- end }}

{{/* Pod networks, each with the prefix length of a node. */}}
{{- define "ovn-offload.podCIDRs" -}}
{{- if .Values.network.podCIDRs -}}
{{ join "," .Values.network.podCIDRs }}
{{- else -}}
{{- $cidrs := list -}}
{{- range include "ovn-offload.kubeadmNetwork" (dict "root" . "key" "podSubnet" "value" "podCIDRs") | default "10.244.0.0/16" | splitList "," -}}
{{- $cidrs = append $cidrs (printf "%s/%s" . (ternary "64" "24" (contains ":" .))) -}}
{{- end -}}
{{ join "," $cidrs }}
{{- end -}}
{{- end }}

{{- define "ovn-offload.serviceCIDRs" -}}
{{- if .Values.network.serviceCIDRs -}}
{{ join "," .Values.network.serviceCIDRs }}
{{- else -}}
{{ include "ovn-offload.kubeadmNetwork" (dict "root" . "key" "serviceSubnet" "value" "serviceCIDRs") | default "10.96.0.0/12" }}
{{- end -}}
{{- end }}

{{/*
The groups of nodes, in JSON: the nodes of nodeGroups with their own settings over those of nodes, and at the end all
other nodes, whose group has no name. A node belongs to the first group whose label it has.
*/}}
{{- define "ovn-offload.groups" -}}
{{- $groups := list -}}
{{- $before := list -}}
{{- range .Values.nodeGroups -}}
{{- $settings := mergeOverwrite (deepCopy $.Values.nodes) (deepCopy (.settings | default dict)) -}}
{{- $label := dict "key" .label.key "values" (list .label.value) -}}
{{- $groups = append $groups (dict "name" .name "suffix" (printf "-%s" .name) "settings" $settings "label" $label "before" $before) -}}
{{- $before = append $before $label -}}
{{- end -}}
{{- $groups = append $groups (dict "name" "" "suffix" "" "settings" .Values.nodes "label" nil "before" $before) -}}
{{ dict "groups" $groups | toJson }}
{{- end }}

{{/* Affinity of a group's agents: nodes that are neither a DPU nor a host with one, nor set up as such a host yet. */}}
{{- define "ovn-offload.groupAffinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: k8s.ovn.org/dpu-host, operator: DoesNotExist}
          - {key: k8s.ovn.org/dpu, operator: DoesNotExist}
          - {key: ovn-offload.io/set-up, operator: NotIn, values: [host]}
          {{- include "ovn-offload.groupNodes" . | nindent 10 }}
{{- end }}

{{/* What Node settings say, as the keys of a ConfigMap. */}}
{{- define "ovn-offload.nodeSettings" -}}
mtu: {{ .mtu | toString | quote }}                          # of pods; 0: the underlay's less the encapsulation
datapath: {{ .datapath | quote }}                # system: the kernel's openvswitch module; netdev: userspace
gateway_interface: {{ .gatewayInterface | quote }}             # the uplink of nodes; empty: the interface of the default route
gateway_next_hop: {{ .gatewayNextHop | quote }}              # the routers of that network, one of each family at most; empty: as the host's default route there says
uplink_forwarding: {{ .uplinkForwarding | toString | quote }}          # true: the host forwards packets of others from its uplink back to the uplink; false: it drops them
encap_ip: {{ .encapIP | quote }}                      # the tunnels' end: an address, or the network that each node has one of; empty: the node's
exgw_interface: {{ .exgwInterface | quote }}                # NIC of a second external bridge, on nodes that have it; empty: none
vf_pools: {{ .vfPools | quote }}                      # which VFs pods can request, in JSON; empty: all in switchdev mode, as ovn-offload.io/vf
vf_resources: {{ .vfResources | quote }}                  # resources of other device plugins whose VFs become a pod's network
management_vf: {{ .managementVF | quote }}                 # VF that carries ovn-k8s-mp0 on nodes that have it, such as ens1f0#0; empty: an internal port of OVS
gateway_vf: {{ .gatewayVF | quote }}                    # VF that has the node's address on nodes that have it, such as ens1f0#1; empty: the gateway bridge's own interface
{{- end }}

{{- define "ovn-offload.clusterSettings" -}}
{{- $databases := include "ovn-offload.databases" . | fromJson -}}
net_cidr: {{ include "ovn-offload.podCIDRs" . | quote }}      # pod networks, each with the prefix length of a node; comma-separated
svc_cidr: {{ include "ovn-offload.serviceCIDRs" . | quote }}         # service networks
join_cidr: {{ join "," .Values.network.joinCIDRs | quote }} # between the cluster's router and the nodes' gateway routers
k8s_apiserver: {{ include "ovn-offload.apiServer" . | quote }}
ovn_nb: {{ $databases.nb | quote }}
ovn_sb: {{ $databases.sb | quote }}
ovn_sb_members: {{ $databases.sbMembers | quote }} # the Southbound for northd and the controller
db_node: {{ $databases.node | quote }}                       # the Node that runs the databases, or the first of several; empty: any of the control plane
db_members: {{ $databases.members | quote }}                    # NODE=ADDRESS,... of the clusters' members; empty: one server
log_level: {{ .Values.logLevel | quote }}
{{- end }}

{{/* A pod template's metadata: its pods are replaced when a setting changes. dict: root, app, settings. */}}
{{- define "ovn-offload.podMetadata" -}}
labels: {{ mergeOverwrite (deepCopy .root.Values.podLabels) .labels | toJson }}
annotations:
  ovn-offload.io/settings: {{ sha256sum .settings | trunc 16 | quote }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* How a DaemonSet's pods are replaced, in JSON. */}}
{{- define "ovn-offload.updateStrategy" -}}
{{- $strategy := dict "type" .Values.updateStrategy.type -}}
{{- if eq .Values.updateStrategy.type "RollingUpdate" -}}
{{- $_ := set $strategy "rollingUpdate" (dict "maxUnavailable" .Values.updateStrategy.maxUnavailable) -}}
{{- end -}}
{{ toJson $strategy }}
{{- end }}

{{/* The new pod starts beside the old one, which ends when the new one is Ready. Its image is never pulled without a network. */}}
{{- define "ovn-offload.surgeStrategy" -}}
{{- $strategy := dict "type" .Values.updateStrategy.type -}}
{{- if eq .Values.updateStrategy.type "RollingUpdate" -}}
{{- $_ := set $strategy "rollingUpdate" (dict "maxSurge" .Values.updateStrategy.maxUnavailable "maxUnavailable" 0) -}}
{{- end -}}
{{ toJson $strategy }}
{{- end }}

{{/* What all pods have in common. dict: root, tolerations. */}}
{{- define "ovn-offload.podSpec" -}}
hostNetwork: true
dnsPolicy: Default
tolerations: {{ .tolerations | toJson }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "ovn-offload.dpuHostSettings" -}}
vf_pools: {{ .Values.dpuHosts.vfPools | quote }}      # which VFs pods can request, in JSON; empty: all, as ovn-offload.io/vf
vf_resources: {{ .Values.dpuHosts.vfResources | quote }}  # resources of other device plugins whose VFs become a pod's network
management_vf: {{ .Values.dpuHosts.managementVF | quote }} # VF that becomes the host's ovn-k8s-mp0, such as ens1f0#0; empty: kubelet does not reach pods
reserved_vfs: {{ .Values.dpuHosts.reservedVFs | quote }}  # VFs for pods that ask for none, such as ens1f0#0-15
{{- end }}

{{- define "ovn-offload.dpuSettings" -}}
{{- $databases := include "ovn-offload.databases" . | fromJson -}}
net_cidr: {{ include "ovn-offload.podCIDRs" . | quote }}
svc_cidr: {{ include "ovn-offload.serviceCIDRs" . | quote }}
mtu: {{ .Values.dpus.mtu | toString | quote }}                          # of pods; 0: the DPU's underlay's less the encapsulation
gateway_interface: {{ .Values.dpus.gatewayInterface | quote }}             # the uplink of DPUs, or its bridge; empty: the interface of the default route, if on the uplink
gateway_next_hop: {{ .Values.dpus.gatewayNextHop | quote }}              # the routers of that network, one of each family at most; empty: as the DPU's default route there says
exgw_interface: {{ .Values.dpus.exgwInterface | quote }}                # NIC or bridge of a second external bridge, on DPUs that have it; empty: none
k8s_apiserver: {{ include "ovn-offload.apiServer" . | quote }} # of the hosts' cluster
ovn_sb: {{ $databases.sb | quote }}     # of the hosts' cluster
log_level: {{ .Values.logLevel | quote }}
{{- end }}

{{/* Whether objects for monitoring are rendered. dict: value, operator. */}}
{{- define "ovn-offload.monitors" -}}
{{- if or (eq .value "always") (and (eq .value "auto") .operator) -}}yes{{- end -}}
{{- end }}
