/* What of DPDK is a macro or an inline function, and what needs its structures, behind plain C calls. Decides as little
 * as it can; every call answers 0 or more, or a negative errno. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>

#define RX_DESCRIPTORS 4096 /* of a source, shared out among its queues */
#define RX_DESCRIPTORS_MIN 256
#define VDEV_QUEUES_MAX 64
#define POOL_CACHE 256
#define JUMBO_MTU 9000

struct netalytics_port {
  uint16_t id;
  uint16_t queues;
  uint8_t whole_flows; /* the port deals both directions of a flow to one queue */
  uint8_t promiscuous;
  uint8_t link_up;
  uint8_t stamps_in_us; /* stamps are microseconds since the epoch: a capture file's */
  uint32_t speed_mbps;
  char driver[32];
  const uint8_t *memory; /* the largest piece of the mbufs' memory */
  uint64_t memory_bytes;
};

struct netalytics_packet {
  const uint8_t *bytes; /* of the first segment */
  uint64_t stamp;       /* 0: none */
  uint32_t len;         /* of the first segment */
  uint32_t total;       /* of all */
};

static int stamp_offset = -1;
static uint64_t stamp_flag;

int netalytics_eal_start(int argc, char **argv) {
  return rte_eal_init(argc, argv) < 0 ? -(rte_errno ? rte_errno : EINVAL) : 0;
}

/* A thread of ours gets a cache of mbufs of its own; without one it is only slower. */
void netalytics_thread(void) { (void)rte_thread_register(); }

/* The name of the port with this number, or none. */
int netalytics_port_name(uint16_t id, char name[RTE_ETH_NAME_MAX_LEN]) {
  return rte_eth_dev_is_valid_port(id) ? rte_eth_dev_get_name_by_port(id, name) : -ENODEV;
}

static void largest(struct rte_mempool *pool, void *to, struct rte_mempool_memhdr *memory, unsigned index) {
  struct netalytics_port *port = to;
  (void)pool, (void)index;
  if (memory->len > port->memory_bytes) {
    port->memory = memory->addr;
    port->memory_bytes = memory->len;
  }
}

static int configure(const struct rte_eth_dev_info *info, struct netalytics_port *port, uint16_t tx, int jumbo) {
  static uint8_t key[64]; /* repeats after 16 bits: the hash is the same for both directions */
  struct rte_eth_conf conf = {0};
  for (size_t i = 0; i < sizeof key; i++)
    key[i] = i % 2 ? 0x5a : 0x6d;
  conf.rxmode.offloads = info->rx_offload_capa & (RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_TIMESTAMP);
  if (jumbo)
    conf.rxmode.mtu = RTE_MIN(info->max_mtu, JUMBO_MTU);
  if (port->queues > 1 && port->whole_flows) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_key = key;
    conf.rx_adv_conf.rss_conf.rss_key_len = info->hash_key_size ? RTE_MIN(info->hash_key_size, sizeof key) : 40;
    conf.rx_adv_conf.rss_conf.rss_hf =
        info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
  }
  return rte_eth_dev_configure(port->id, port->queues, tx, &conf);
}

/* Starts the port with at most `workers` queues that hold whole flows, and `mbufs` for the reader of each. A virtual device without a hash of its own is
 * given all its queues: it deals packets to them whether or not they are read. */
int netalytics_port_start(uint16_t id, uint16_t workers, uint32_t mbufs, int promiscuous,
                          struct netalytics_port *port) {
  struct rte_eth_dev_info info;
  struct rte_eth_link link = {0};
  uint16_t rx, tx = 0;
  int ret = rte_eth_dev_info_get(id, &info);
  if (ret < 0)
    return ret;
  memset(port, 0, sizeof *port);
  port->id = id;
  strncpy(port->driver, info.driver_name, sizeof port->driver - 1);
  port->stamps_in_us = !strcmp(info.driver_name, "net_pcap");
  port->whole_flows = !!(info.flow_type_rss_offloads & RTE_ETH_RSS_IP);
  if (port->whole_flows)
    port->queues = RTE_MAX(1, RTE_MIN(workers, info.max_rx_queues));
  else if (!strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev"))
    port->queues = RTE_MAX(1, RTE_MIN(info.max_rx_queues, VDEV_QUEUES_MAX));
  else
    port->queues = 1;
  const uint16_t tx_queues = info.max_tx_queues ? 1 : 0; /* unused, but some drivers want one */
  const int scatter = !!(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER);
  ret = configure(&info, port, tx_queues, scatter);
  if (ret < 0 && scatter)
    ret = configure(&info, port, tx_queues, 0);
  const uint16_t sources = port->whole_flows ? port->queues : 1;
  rx = RTE_MAX(RX_DESCRIPTORS_MIN, RX_DESCRIPTORS * sources / port->queues);
  if (ret < 0 || (ret = rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx, &tx)) < 0)
    return ret;
  const int socket = rte_eth_dev_socket_id(id);
  struct rte_mempool *pool = rte_pktmbuf_pool_create("netalytics", mbufs * sources + rx * port->queues, POOL_CACHE, 0,
                                                     RTE_MBUF_DEFAULT_BUF_SIZE, socket);
  if (!pool)
    return -rte_errno;
  rte_mempool_mem_iter(pool, largest, port);
  (void)rte_mbuf_dyn_rx_timestamp_register(&stamp_offset, &stamp_flag);
  for (uint16_t queue = 0; queue < port->queues; queue++)
    if ((ret = rte_eth_rx_queue_setup(id, queue, rx, socket, NULL, pool)) < 0)
      return ret;
  if (tx_queues && (ret = rte_eth_tx_queue_setup(id, 0, tx, socket, NULL)) < 0)
    return ret;
  if ((ret = rte_eth_dev_start(id)) < 0)
    return ret;
  port->promiscuous = promiscuous && rte_eth_promiscuous_enable(id) == 0;
  if (rte_eth_link_get_nowait(id, &link) == 0) {
    port->link_up = link.link_status;
    port->speed_mbps = link.link_speed;
  }
  return 0;
}

void netalytics_port_stop(uint16_t id) { (void)rte_eth_dev_stop(id); }

uint16_t netalytics_receive(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs,
                            struct netalytics_packet *packets, uint16_t max) {
  const uint16_t n = rte_eth_rx_burst(port, queue, mbufs, max);
  for (uint16_t i = 0; i < n; i++) {
    const struct rte_mbuf *m = mbufs[i];
    const int stamped = stamp_offset >= 0 && (m->ol_flags & stamp_flag);
    packets[i].bytes = rte_pktmbuf_mtod(m, const uint8_t *);
    packets[i].stamp = stamped ? *RTE_MBUF_DYNFIELD(m, stamp_offset, const rte_mbuf_timestamp_t *) : 0;
    packets[i].len = m->data_len;
    packets[i].total = m->pkt_len;
  }
  return n;
}

/* Copies the first `len` bytes of a packet, of however many segments. */
void netalytics_copy(const struct rte_mbuf *m, uint8_t *to, uint32_t len) {
  const void *bytes = rte_pktmbuf_read(m, 0, len, to);
  if (bytes && bytes != to)
    memcpy(to, bytes, len);
}

void netalytics_free(struct rte_mbuf **mbufs, uint16_t n) { rte_pktmbuf_free_bulk(mbufs, n); }

/* Packets that the port dropped: its queues were full, they were damaged, there was no mbuf for them. */
int netalytics_drops(uint16_t port, uint64_t *drops) {
  struct rte_eth_stats stats;
  const int ret = rte_eth_stats_get(port, &stats);
  if (ret == 0)
    *drops = stats.imissed + stats.ierrors + stats.rx_nombuf;
  return ret;
}
