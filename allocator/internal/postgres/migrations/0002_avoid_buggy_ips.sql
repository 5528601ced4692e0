-- Whether IPv4 addresses of a pool that end in .0 or .255 are left to explicit requests.
ALTER TABLE allocator_pools ADD COLUMN avoid_buggy_ips boolean NOT NULL DEFAULT false;
