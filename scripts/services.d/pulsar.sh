# shellcheck shell=bash
# Apache Pulsar in one process: broker, bookie and metadata store. Who comes without a token may do
# everything, and who comes with one what its role is allowed to. Tokens are signed with a key in a file.

pulsar_jars=pulsar-4.0.7

pulsar_packages() { echo maven openjdk-17-jre-headless; }

# Seconds: on an idle machine it takes ten, and on one that is busy with much else half its time goes by
# before it logs a line.
pulsar_patience=240

pulsar_has() { command -v java >/dev/null && has_maven "$pulsar_jars"; }

# Other versions are partly missing from Maven Central.
pulsar_install() {
	maven "$pulsar_jars" org.apache.pulsar:pulsar-broker:4.0.7 org.apache.pulsar:pulsar-functions-worker:4.0.7 \
		org.apache.logging.log4j:log4j-slf4j2-impl:2.23.1 org.apache.logging.log4j:log4j-core:2.23.1
}

pulsar_prepare() {
	(umask 077 && head -c 32 /dev/urandom >token.key)
	cat >log4j2.xml <<-'XML'
		<Configuration status="error"><Appenders><Console name="c"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
		<Loggers><Root level="warn"><AppenderRef ref="c"/></Root></Loggers></Configuration>
	XML
}

pulsar_start() {
	local opens=() o
	for o in java.base/java.io java.base/java.util.zip java.base/java.nio java.base/jdk.internal.misc java.base/sun.net \
		java.base/jdk.internal.platform java.management/sun.management jdk.management/com.sun.management.internal; do
		opens+=("--add-opens=$o=ALL-UNNAMED")
	done
	# Written at each start: a start may add settings to the file.
	cat >"$dir/standalone.conf" <<-EOF
		clusterName=standalone
		brokerServicePort=$(port)
		webServicePort=$(port web)
		bindAddress=127.0.0.1
		listeningInterface=lo
		advertisedAddress=127.0.0.1
		allowLoopback=true
		ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
		managedLedgerDefaultEnsembleSize=1
		managedLedgerDefaultWriteQuorum=1
		managedLedgerDefaultAckQuorum=1
		diskUsageThreshold=0.99
		diskUsageWarnThreshold=0.98
		loadBalancerEnabled=false
		numIOThreads=2
		numHttpServerThreads=8
		dbStorage_writeCacheMaxSizeMb=64
		dbStorage_readAheadCacheMaxSizeMb=64
		authenticationEnabled=true
		authorizationEnabled=true
		authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken
		tokenSecretKey=file://$dir/token.key
		anonymousUserRole=anonymous
		superUserRoles=anonymous
	EOF
	# Libraries that Java unpacks go with the folder: a server that is killed would leave them in /tmp.
	mkdir -p "$dir/tmp"
	run java -Djava.io.tmpdir="$dir/tmp" -Xmx768m -XX:MaxDirectMemorySize=768m -XX:+UseSerialGC "${opens[@]}" \
		-Dio.netty.tryReflectionSetAccessible=true -Dlog4j.configurationFile="$dir/log4j2.xml" \
		-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver \
		-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver \
		-cp "$cache/$pulsar_jars/*" org.apache.pulsar.PulsarStandaloneStarter --config "$dir/standalone.conf" -nfw -nss \
		--metadata-dir "$dir/meta" --bookkeeper-dir "$dir/bk" --bookkeeper-port "$(port bookie)" -a 127.0.0.1
}

pulsar_ready() { [[ "$(http "$(port web)" /admin/v2/namespaces/public)" == *" 200 "*default* ]]; }

pulsar_env() {
	echo "RINGFENCE_PULSAR_URL=pulsar://127.0.0.1:$(port)?web=http://127.0.0.1:$(port web)"
	echo "RINGFENCE_PULSAR_KEY_URL=file://$dir/token.key"
}
