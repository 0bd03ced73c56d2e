# shellcheck shell=bash
# Apache Kafka as a cluster of three brokers, of which the first is the controller too. Topics have
# three replicas; of how many an ack waits for at least they decide, as Kafka's default is one. The
# parts are the brokers, by their node ids: kafka_cluster/2 is the second. The URL names them in that
# order.

# shellcheck source=/dev/null
source "$root/scripts/services.d/kafka.sh"

kafka_cluster_parts="1 2 3"
kafka_cluster_patience=300

kafka_cluster_packages() { kafka_packages; }
kafka_cluster_has() { kafka_has; }
kafka_cluster_install() { kafka_install; }

# Each broker has a folder with its properties, and all of them one id of the cluster.
kafka_cluster_prepare() {
	local id part
	id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'ab' | cut -c1-22)
	kafka_log_settings
	for part in $kafka_cluster_parts; do
		port "$part" >/dev/null
		mkdir "$part"
		kafka_cluster_properties "$part" >"$part/server.properties"
	done
	printf '%s\n' $kafka_cluster_parts | xargs -P 3 -I '{}' java -Xmx64m -XX:TieredStopAtLevel=1 -cp "$cache/$kafka_jars/*" \
		-Dlog4j.configurationFile=log4j2.xml kafka.tools.StorageTool format -t "$id" -c '{}/server.properties'
}

# A broker that dies or is stopped loses its partitions after four seconds.
kafka_cluster_properties() { # PART
	local roles=broker listeners=PLAINTEXT://127.0.0.1:$(port "$1")
	if [ "$1" = 1 ]; then
		roles=broker,controller
		listeners+=,CONTROLLER://127.0.0.1:$(port controller)
	fi
	cat <<-PROPERTIES
		process.roles=$roles
		node.id=$1
		controller.quorum.voters=1@127.0.0.1:$(port controller)
		listeners=$listeners
		advertised.listeners=PLAINTEXT://127.0.0.1:$(port "$1")
		controller.listener.names=CONTROLLER
		listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
		inter.broker.listener.name=PLAINTEXT
		log.dirs=$dir/$1/data
		default.replication.factor=3
		min.insync.replicas=1
		broker.session.timeout.ms=4000
		broker.heartbeat.interval.ms=500
		auto.leader.rebalance.enable=false
		num.network.threads=2
		num.io.threads=4
		num.recovery.threads.per.data.dir=1
		offsets.topic.replication.factor=3
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=3
		transaction.state.log.num.partitions=4
		transaction.state.log.min.isr=2
		group.initial.rebalance.delay.ms=0
		auto.create.topics.enable=false
		log.cleaner.dedupe.buffer.size=4194304
		log.cleaner.threads=1
	PROPERTIES
}

kafka_cluster_start() { # PART
	run java -Xms128m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j.configurationFile="$dir/../log4j2.xml" \
		-cp "$cache/$kafka_jars/*" kafka.Kafka server.properties
}

# All brokers are known to one of them; or to the one of that part, which is told last.
kafka_cluster_ready() { # [PART]
	kcat -b "127.0.0.1:$(port "${1:-1}")" -L -m 2 >brokers || return 1
	if [ $# -gt 0 ]; then grep -q "broker $1 at" brokers; else grep -q '3 brokers' brokers; fi
}

kafka_cluster_env() {
	echo "RINGFENCE_KAFKA_CLUSTER_URL=kafka://127.0.0.1:$(port 1),127.0.0.1:$(port 2),127.0.0.1:$(port 3)"
}
