#!/usr/bin/env bash
# Records captures/nfs anew: NFS-Ganesha, whose files are in memory, and rpcbind in one network namespace, libnfs in
# another, tcpdump between them. Requires root on Debian; traffic stays inside the two namespaces. tshark's rows are the
# truth.
. "$(dirname "$0")/../record/two_hosts.sh"
needs nfs-ganesha nfs-ganesha-mem libnfs13 rpcbind python3 tshark
two_hosts nfs
ip -n $server addr add 10.20.0.10/24 dev eth0
ip -n $client addr add 10.20.0.21/24 dev eth0

cd "$work"
cat >ganesha.conf <<'CONF'
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false; Enable_RQUOTA = false; }
EXPORT {
  Export_Id = 1; Path = "/export"; Pseudo = "/export"; Protocols = 3; Transports = TCP;
  Access_Type = RW; Squash = None; SecType = sys; FSAL { Name = MEM; }
}
CONF
ip netns exec $server rpcbind -f -w & pids+=($!)
sleep 1
ip netns exec $server ganesha.nfsd -F -f ganesha.conf -p ganesha.pid -L ganesha.log & pids+=($!)
ip netns exec $client tcpdump -q -U --immediate-mode -i eth0 -w in.pcap tcp 2>/dev/null & pids+=($!)
dump=${pids[-1]}
sleep 4
ip netns exec $client python3 "$here/clients.py" 10.20.0.10
sleep 1
kill -INT "$dump"
wait "$dump" || true

# Replies: time, client port, transaction, program, version, procedure, NFS status, seconds since the call.
tshark -r in.pcap -Y 'rpc.msgtyp == 1' -T fields -E occurrence=f -e frame.time_epoch -e tcp.dstport -e rpc.xid -e rpc.program \
  -e rpc.programversion -e rpc.procedure -e nfs.status -e rpc.time >tshark.tsv
cp in.pcap tshark.tsv "$here/"
