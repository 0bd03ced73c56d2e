package main

// pushMutants are bugs of the delivery to endpoints, which are strangers.
func pushMutants() []mutant {
	const push = "push"
	return []mutant{
		{
			name: "event-attributes-not-escaped", breaks: "a key with a percent sign or a quote arrives as another one",
			file: "push/cloudevent.go",
			find: ` || c == '"' || c == '%' {`, put: " {",
			pkg: push, test: "TestARequestIsACloudEventWhenThatIsAskedFor$",
		},
		{
			name: "event-in-an-event", breaks: "a record that is a whole CloudEvent is told to be the data of another",
			file: "push/cloudevent.go",
			find: `"application/cloudevents") {`, put: `"application/no-events") {`,
			pkg: push, test: "TestAWholeCloudEventIsLeftAsItIs$",
		},
		{
			name: "key-of-a-certificate-not-private", breaks: "a key that every user of the host can read is taken",
			file: "push/clienttls.go",
			find: `storeurl.ReadPrivate("key file", c.key)`, put: "storeurl.ReadFile(c.key, storeurl.Anybody)",
			pkg: push, test: "TestFilesOfTLSThatCanNotBeUsedAreRefused$",
		},
		{
			name: "ca-of-anybody-trusted", breaks: "who can write to the file of a CA takes the records, and the tokens, of every endpoint",
			file: "push/clienttls.go",
			find: "	return storeurl.Believed\n", put: "	return storeurl.Anybody\n",
			pkg: push, test: "TestFilesOfTLSThatCanNotBeUsedAreRefused$",
		},
		{
			name: "event-of-no-year", breaks: "a record with an odd time is an event that its receiver can't read, and a dead letter",
			file: "push/cloudevent.go",
			find: "	if at := m.Timestamp.UTC(); at.Year() >= 0 && at.Year() <= 9999 {", put: "	if at := m.Timestamp.UTC(); true {",
			pkg: push, test: "TestATimeThatRFC3339CanNotSayIsNoAttribute$",
		},
		{
			name: "connections-without-end", breaks: "an endpoint takes all descriptors of a daemon, one connection a delivery",
			file: "push/endpoint.go",
			find: "bounded(dialer.DialContext)", put: "dialer.DialContext",
			pkg: "push", test: "TestATransportBoundsItsConnections$",
		},
		{
			name: "connections-that-failed-count", breaks: "an endpoint that was away for long gets no connection ever again",
			file: "push/bounded.go",
			find: "		if err != nil {\n			open.Add(-1)\n", put: "		if err != nil {\n",
			pkg: "push", test: "TestAnEndpointHasNoMoreConnectionsThanTheLimitSays$",
		},
		{
			name: "connections-freed-twice", breaks: "a connection that is closed twice makes room for two",
			file: "push/bounded.go",
			find: "closed: sync.OnceFunc(func() { open.Add(-1) })", put: "closed: func() { sync.OnceFunc(func() { open.Add(-1) })() }",
			pkg: "push", test: "TestAnEndpointHasNoMoreConnectionsThanTheLimitSays$",
		},
		{
			name: "redirection-followed", breaks: "an endpoint makes us send a record to where it likes",
			file: "push/endpoint.go",
			find: "e.transport.RoundTrip(req)", put: "(&http.Client{Transport: e.transport}).Do(req)",
			pkg: push, test: "TestARedirectionIsNotFollowed$",
		},
		{
			name: "addresses-not-guarded", breaks: "a name that leads to this host or a private network reaches what is there",
			file: "push/endpoint.go",
			find: "ControlContext: g.control, ", put: "",
			pkg: push, test: "TestANameThatLeadsToThisHostReachesNothing$",
		},
		{
			name: "addresses-in-ipv6-not-known", breaks: "an address of a private network is dialed when it is written as one of IPv6",
			file: "push/guard.go",
			find: "	addr = addr.WithZone(\"\").Unmap()\n", put: "	addr = addr.WithZone(\"\")\n",
			pkg: push, test: "TestAddressesForSpecialPurposesAreRefused$",
		},
		{
			name: "public-address-of-this-host-dialed", breaks: "who makes a subscription reaches what listens on this host, past the firewall, by its public address",
			file: "push/guard.go",
			find: "netip.ParsePrefix(a.String()); err == nil && p", put: "netip.ParsePrefix(a.String()); err != nil && p",
			pkg: push, test: "TestAPublicAddressOfThisHostIsRefused$",
		},
		{
			name: "addresses-of-this-host-not-known-are-dialed", breaks: "where nobody can say what this host has, its own addresses are dialed",
			file: "push/guard.go",
			find: "	own, err := g.own()\n	if err != nil {\n", put: "	own, err := g.own()\n	if err != nil && own != nil {\n",
			pkg: push, test: "TestAPublicAddressOfThisHostIsRefused$",
		},
		{
			name: "answer-without-bound", breaks: "an endpoint that answers without end takes all memory",
			file: "push/answer.go",
			find: "io.LimitReader(res.Body, limits.EndpointAnswerBytes)", put: "io.LimitReader(res.Body, limits.EndpointAnswerBytes<<20)",
			pkg: push, test: "TestOfAnAnswerIsReadWhatTheLimitSays$",
		},
		{
			name: "retry-after-ignored", breaks: "an endpoint that asks for a pause gets none",
			file: "push/answer.go",
			find: "now); wait > 0 {\n", put: "now); wait < 0 {\n",
			pkg: push, test: "TestWhatAnAnswerMeans$",
		},
		{
			name: "retry-after-without-bound", breaks: "an endpoint holds its records back for ever with one header",
			file: "push/answer.go",
			find: "	return min(max(0, at.Sub(now)), longestWait)\n", put: "	return max(0, at.Sub(now))\n",
			pkg: push, test: "TestTheWaitOfAnAnswerIsUnderstoodAndBounded$",
		},
		{
			name: "connection-handed-out-is-read", breaks: "an endpoint that answers 101 keeps an attempt for ever, also when the process is to end",
			file: "push/answer.go",
			find: "	if res.StatusCode < http.StatusOK {\n", put: "	if res.StatusCode < 0 {\n",
			pkg: push, test: "TestNothingIsReadOfAConnectionThatAnAnswerHandsOut$",
		},
		{
			name: "gone-not-heeded", breaks: "an endpoint that wants nothing more is asked on, until all is given up",
			file: "push/endpoint.go",
			find: "	if errors.Is(err, ErrGone) && e.gone != nil {\n", put: "	if errors.Is(err, ErrGone) && e.gone == nil {\n",
			pkg: push, test: "TestAnEndpointThatIsGoneIsAskedNoMoreUntilSomebodyResumes$",
		},
		{
			name: "signed-other-bytes", breaks: "the signature is not over what is sent, and no receiver can verify it",
			file: "push/secret.go",
			find: "		mac.Write(body)\n", put: "		mac.Write(body[:len(body)/2])\n",
			pkg: push, test: "TestASignatureIsThatOfStandardWebhooks$",
		},
		{
			name: "header-injected", breaks: "a record's key or header makes a header of its own in the request",
			file: "push/header.go",
			find: "		if s[i] < ' ' || s[i] > '~' {\n", put: "		if s[i] > '~' {\n",
			pkg: push, test: "TestARecordInjectsNoHeader$",
		},
		{
			name: "header-name-unchecked", breaks: "a header of a record whose name HTTP can't carry breaks the request, or is lost",
			file: "push/header.go",
			find: "		if !token(r.Name) || !plain(value) {\n", put: "		if !plain(value) {\n",
			pkg: push, test: "TestARecordInjectsNoHeader$",
		},
		{
			name: "parameters-of-an-endpoint-shown", breaks: "whoever describes a subscription sees the secret in the URL of its endpoint",
			file: "internal/cli/serve.go",
			find: "	shown, e := *d, d.Endpoint.Shown()\n", put: "	shown, e := *d, *d.Endpoint\n",
			pkg: "internal/cli", test: "TestScripts$/^serve$",
		},
		{
			name: "damaged-definition-stops-all", breaks: "one definition that can't be read ends the delivery of all subscriptions",
			file: "push/serve.go",
			find: "			defined[d.Name] = true // what runs goes on\n", put: "			_ = d.Name\n",
			pkg: push, test: "TestADefinitionThatCanNotBeReadEndsNothing$",
		},
		{
			name: "silent-registry-stops-all", breaks: "a registry that does not answer ends the delivery of all subscriptions",
			file: "push/serve.go",
			find: "		if err == nil && !defined[name] {\n", put: "		if !defined[name] {\n",
			pkg: push, test: "TestARegistryThatDoesNotAnswerEndsNothing$",
		},
		{
			name: "damaged-definition-hides-all", breaks: "one definition that can't be read hides all subscriptions that are made later",
			file: "push/serve.go",
			find: "			defined[d.Name] = true // what runs goes on\n", put: "			return\n",
			pkg: push, test: "TestServeFollowsChangesAndADamagedDefinitionStopsNoOther$",
		},
		{
			name: "changed-endpoint-not-followed", breaks: "a daemon goes on with the endpoint that a subscription had",
			file: "push/serve.go",
			find: "		case r.terms != now:\n", put: "		case r.terms.set != now.set:\n",
			pkg: push, test: "TestServeFollowsChangesAndADamagedDefinitionStopsNoOther$",
		},
		{
			name: "certificate-for-everybody", breaks: "who may write a definition has the certificate of another endpoint shown to his own",
			file: "push/clienttls.go",
			find: "		if sameOrigin(c.origin, origin) {\n", put: "		if sameOrigin(c.origin, c.origin) {\n",
			pkg: push, test: "TestACertificateIsShownToItsOriginAlone$",
		},
		{
			name: "ca-read-once", breaks: "a CA that was replaced counts once the daemon is started anew",
			file: "push/clienttls.go",
			find: "		if pool := roots.current(now); pool != nil {\n", put: "		if pool := roots.value; pool != nil {\n",
			pkg: push, test: "TestCertificatesToTrustAreReadAnew$",
		},
		{
			name: "secret-signs-for-everybody", breaks: "who may write a definition has what he likes signed with the secret of another endpoint",
			file: "push/secret.go",
			find: "			if !sameOrigin(fields[0], origin) {\n", put: "			if !sameOrigin(fields[0], fields[0]) {\n",
			pkg: push, test: "TestASecretOfAnOriginSignsNothingElse$",
		},
		{
			name: "certificate-for-a-longer-name", breaks: "a certificate is shown to an origin whose name begins with that of its own",
			file: "push/clienttls.go",
			find: "strings.EqualFold(strings.TrimSuffix(line, \"/\"), origin)", put: "strings.HasPrefix(strings.ToLower(origin), strings.ToLower(strings.TrimSuffix(line, \"/\")))",
			pkg: "push", test: "TestACertificateIsShownToItsOriginAlone$",
		},
		{
			name: "certificate-without-tls", breaks: "a line that can never count passes for one that does",
			file: "push/clienttls.go",
			find: "len(fields) != 3 || !strings.HasPrefix(fields[0], \"https://\")", put: "len(fields) != 3",
			pkg: "push", test: "TestFilesOfTLSThatCanNotBeUsedAreRefused$",
		},
		{
			name: "limits-of-an-origin-as-written", breaks: "the limits of an endpoint hold for nobody when its origin ends with a slash",
			file: "push/limit.go",
			find: "targets[origin] = subscription", put: "targets[at] = subscription",
			pkg: "push", test: "TestAnEndpointGetsNoMoreAtOnceThanItMay$",
		},
		{
			name: "paused-widens-a-limit", breaks: "an endpoint gets more at once than it may when some of its subscriptions are paused",
			file: "push/limit.go",
			find: "		if d.Endpoint != nil {", put: "		if d.Endpoint != nil && d.Paused == nil {",
			pkg: "push", test: "TestPausedSubscriptionsWidenNoLimit$",
		},
	}
}
