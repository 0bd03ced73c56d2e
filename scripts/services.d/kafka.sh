# shellcheck shell=bash
# Apache Kafka in KRaft mode, broker and controller in one process: in the clear, with SASL, and
# with SASL over TLS, each on a port of its own. Who comes in the clear and alice may do everything,
# any other user what an ACL allows. kcat comes along as the stranger that reads what we write.

kafka_jars=kafka-4.1.1

kafka_packages() { echo maven openjdk-17-jre-headless kcat; }

kafka_has() { command -v java >/dev/null && command -v keytool >/dev/null && command -v kcat >/dev/null && has_maven "$kafka_jars"; }

kafka_install() {
	maven "$kafka_jars" org.apache.kafka:kafka_2.13:4.1.1 \
		org.apache.logging.log4j:log4j-slf4j-impl:2.24.3 org.apache.logging.log4j:log4j-core:2.24.3
}

kafka_log_settings() {
	cat >log4j2.xml <<-'XML'
		<Configuration status="error"><Appenders><Console name="c"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
		<Loggers><Root level="warn"><AppenderRef ref="c"/></Root></Loggers></Configuration>
	XML
}

# alice is known to the SASL listeners, by any mechanism.
kafka_prepare() {
	kafka_log_settings
	keytool -genkeypair -alias broker -keyalg EC -groupname secp256r1 -validity 3650 -dname CN=localhost \
		-ext san=dns:localhost,ip:127.0.0.1 -storetype PKCS12 -keystore keys.p12 -storepass keystore
	keytool -exportcert -rfc -alias broker -keystore keys.p12 -storepass keystore -file ca.pem
	kafka_properties
	java -cp "$cache/$kafka_jars/*" -Dlog4j.configurationFile=log4j2.xml kafka.tools.StorageTool format -c server.properties \
		-t "$(java -cp "$cache/$kafka_jars/*" kafka.tools.StorageTool random-uuid 2>/dev/null)" \
		--add-scram 'SCRAM-SHA-256=[name=alice,password=wonderland]' --add-scram 'SCRAM-SHA-512=[name=alice,password=wonderland]'
}

kafka_properties() {
	local module=org.apache.kafka.common.security listener
	cat >server.properties <<-EOF
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$(port controller)
		listeners=PLAINTEXT://127.0.0.1:$(port),CONTROLLER://127.0.0.1:$(port controller),SASL_PLAINTEXT://127.0.0.1:$(port sasl),SASL_SSL://127.0.0.1:$(port tls)
		advertised.listeners=PLAINTEXT://127.0.0.1:$(port),SASL_PLAINTEXT://127.0.0.1:$(port sasl),SASL_SSL://127.0.0.1:$(port tls)
		controller.listener.names=CONTROLLER
		listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
		inter.broker.listener.name=PLAINTEXT
		log.dirs=$dir/data
		num.network.threads=2
		num.io.threads=4
		offsets.topic.replication.factor=1
		offsets.topic.num.partitions=4
		transaction.state.log.replication.factor=1
		transaction.state.log.num.partitions=4
		transaction.state.log.min.isr=1
		group.initial.rebalance.delay.ms=0
		auto.create.topics.enable=false
		authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
		super.users=User:ANONYMOUS;User:alice
		sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
		ssl.keystore.location=$dir/keys.p12
		ssl.keystore.type=PKCS12
		ssl.keystore.password=keystore
	EOF
	for listener in sasl_plaintext sasl_ssl; do
		cat >>server.properties <<-EOF
			listener.name.$listener.plain.sasl.jaas.config=$module.plain.PlainLoginModule required user_alice="wonderland";
			listener.name.$listener.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required;
			listener.name.$listener.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;
		EOF
	done
}

kafka_start() {
	run java -Xms256m -Xmx512m -XX:+UseSerialGC -Dlog4j.configurationFile="$dir/log4j2.xml" -cp "$cache/$kafka_jars/*" kafka.Kafka server.properties
}

kafka_ready() { kcat -b "127.0.0.1:$(port)" -L -m 2 | grep -q '1 brokers'; }

kafka_env() {
	echo "RINGFENCE_KAFKA_URL=kafka://127.0.0.1:$(port)"
	echo "RINGFENCE_KAFKA_SASL_URL=kafka://alice:wonderland@127.0.0.1:$(port sasl)?sasl=scram-sha-512"
	echo "RINGFENCE_KAFKA_TLS_URL=kafka://alice:wonderland@127.0.0.1:$(port tls)?tls-ca=$dir/ca.pem"
}
