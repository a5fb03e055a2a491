/* A very old UCX. */
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 10;
  *release = 2;
}
