"""Clients with many requests on a connection: each argument is VERSION:PORT:REQUESTS. Keys go to the file keys.log."""
import http.client
import random
import ssl
import sys

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
FILES = ["/small", "/small?id=%d", "/medium", "/missing/%d"]

random.seed(1)
for argument in sys.argv[1:]:
    version, port, requests = argument.split(":")
    context = ssl.create_default_context(cafile="shop.test.pem")
    context.minimum_version = context.maximum_version = VERSIONS[version]
    context.keylog_filename = "keys.log"
    connection = http.client.HTTPSConnection("shop.test", int(port), context=context)
    for number in range(int(requests)):
        path = random.choice(FILES)
        path = path % number if "%" in path else path
        if number % 7 == 3:
            connection.request("POST", "/upload", body=b"x" * random.randrange(10, 4000))
        else:
            connection.request("GET", path)
        connection.getresponse().read()
    connection.close()
